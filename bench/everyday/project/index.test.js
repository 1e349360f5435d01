const assert = require("node:assert");
const test = require("node:test");
const { add } = require("./index.js");

test("adds", () => assert.equal(add(1, 2), 3));
