import sys

from tests.strict_server.server import main

sys.exit(main())
