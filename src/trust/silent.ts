// What VNodes that share weights pass to each other on one machine is neither hashed nor listed: it never leaves the machine, is larger than everything else, and
// follows from what is listed, as long as all of them are repeated together. In place of its root an edge has this one then.

import { sha256 } from "../core/hash.ts";

export const silentRoot = sha256("dcnr silent edge");
