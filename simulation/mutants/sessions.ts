// A check of what a PNode is told about a session that leaves one comparison out.

import { fail } from "../../src/core/errors.ts";
import { sha256 } from "../../src/core/hash.ts";
import { isIdentityOf } from "../../src/network/settings/session.ts";
import type { CheckSession } from "../../src/pnode/session-context.ts";

export function checkingAllBut(left: "id" | "definition" | "bits"): CheckSession {
  return ({ session, identity, definition }, ownBits) => {
    const holds = {
      id: isIdentityOf(session, identity),
      definition: sha256(definition) === identity.definition,
      bits: identity.bits === ownBits,
    };
    for (const [name, fits] of Object.entries(holds))
      if (!fits && name !== left) fail("data_loss", `the ${name} of session ${session} does not fit`);
  };
}
