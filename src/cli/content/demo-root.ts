// The root of the demo's weights in a run that nobody disturbed, to compare with: kept here for numerics whose bits are
// ours, computed on request for others.

import type { Session } from "../../protocol/gen/dcnr/v1/session_pb.ts";
import type { Output } from "../shown/output.ts";

/**
 * By session and numerics class. A session's id stands for all that decides its bits: their version, the network, the
 * data, the settings. Written down from `dcnr demo --no-kill`; a change of any of it leaves these unused.
 */
const undisturbedRoots: Readonly<Record<string, string>> = {
  "gpt-demo-f0b837efd943 portable-2": "dcb08f63d89c1609bac5ca348c3f5b238470cbef4427f9a984b1e4e003317ff0",
};

export interface Undisturbed {
  readonly root: string;
  /** Where it is known from, as the end of a sentence. */
  readonly from: string;
}

export function keptRoot({ id, numericsClass }: Pick<Session, "id" | "numericsClass">): Undisturbed | undefined {
  const root = undisturbedRoots[`${id} ${numericsClass}`];
  return root === undefined ? undefined : { root, from: `one that was kept for ${numericsClass} numerics` };
}

/** False if the promise was broken. */
export function compareRoots(out: Output, session: Session, undisturbed: Undisturbed | undefined): boolean {
  out.line();
  if (!undisturbed) {
    out.line(
      `No root of an undisturbed run is kept for these steps on numerics of the class ${session.numericsClass}.`,
    );
    out.line("dcnr demo --compare trains once more with nobody killed, and compares.");
    return true;
  }
  if (undisturbed.root === session.stepRoot) {
    out.line(
      out.tone(
        "good",
        `The weights are bit for bit those of an undisturbed run: its step root, ${undisturbed.from}, is the same.`,
      ),
    );
    return true;
  }
  out.line(
    out.tone("bad", `The step root differs from that of an undisturbed run, ${undisturbed.from}: ${undisturbed.root}`),
  );
  out.line("That must not be: please report it with both roots and what dcnr version says.");
  return false;
}
