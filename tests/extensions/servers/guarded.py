"""A server that answers only those who have logged in, and the place where they do; on
PORT."""

import os
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

PORT = int(os.environ["PORT"])
HERE = f"http://127.0.0.1:{PORT}"
TOKEN, RENEWED = "tok-0123456789", "tok-renewed-89"
WIDE = "tok-wide-56789"
"""What a call needs: the token of a login for the scope `write`."""
scopes = []

DOCUMENTS = {
    "/.well-known/oauth-protected-resource": {
        "resource": f"{HERE}/mcp",
        "authorization_servers": [HERE],
    },
    "/.well-known/oauth-authorization-server": {
        "issuer": HERE,
        "authorization_endpoint": f"{HERE}/authorize",
        "token_endpoint": f"{HERE}/token",
        "registration_endpoint": f"{HERE}/register",
        "response_types_supported": ["code"],
    },
}
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "guarded", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "open", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "opened"}]},
}


async def answer(request):
    path = request.url.path
    if path in DOCUMENTS:
        return JSONResponse(DOCUMENTS[path])
    if path == "/register":
        return JSONResponse({**await request.json(), "client_id": "kode-1"}, status_code=201)
    if path == "/authorize":
        query = request.query_params
        scopes.append(query.get("scope", ""))
        back = urlencode({"code": "c-1", "state": query["state"]})
        return RedirectResponse(f"{query['redirect_uri']}?{back}")
    if path == "/token":
        form = await request.form()
        is_renewal = form.get("refresh_token") == "r-1" and form["resource"] == f"{HERE}/mcp"
        assert is_renewal or (form["code"] == "c-1" and form["code_verifier"])
        given = RENEWED if is_renewal else WIDE if "write" in scopes[-1] else TOKEN
        lasting = {"expires_in": 3600, "refresh_token": "r-1"}
        return JSONResponse({"access_token": given, "token_type": "Bearer", **lasting})
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if token not in (TOKEN, WIDE, RENEWED):
        where = f'Bearer resource_metadata="{HERE}/.well-known/oauth-protected-resource"'
        return Response(status_code=401, headers={"WWW-Authenticate": where})
    if request.method != "POST":
        return Response(status_code=405)
    asked = await request.json()
    if asked["method"] == "tools/call" and token != WIDE:
        why = 'Bearer error="insufficient_scope", scope="write"'
        return Response(status_code=403, headers={"WWW-Authenticate": why})
    if "id" not in asked:
        return Response(status_code=202)
    result = RESULTS.get(asked["method"])
    reply = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
    return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], **reply})


app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST", "DELETE"])])
uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="critical")
