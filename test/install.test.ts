// The short form of `npm run install-matrix`: an old Node with the npm that blocks install scripts, and the package.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Matrix } from "../scripts/install-matrix.ts";

test("whoever has Node 22 and npm 12 installs the package and uses it; a newer Node comes by itself", async () => {
  const matrix = new Matrix();
  try {
    assert.equal(await matrix.walk({ node: "22", npm: "12", what: "packed", scriptsBlocked: false }), undefined);
  } finally {
    matrix.close();
  }
});
