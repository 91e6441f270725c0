// The worker in which a page reads what strangers wrote (aside.ts): one order after the other. It knows the works of the rooms that
// a PNode needs.

import { DcnrError, messageOf } from "../core/errors.ts";
import * as grammarWorks from "../models/grammar/works.ts";
import * as networkWorks from "../network/works.ts";
import * as listWorks from "../trust/works.ts";
import type { AsideAnswer, AsideOrder } from "./aside.ts";

const works = { ...networkWorks, ...grammarWorks, ...listWorks } as unknown as Record<
  string,
  { run?: (input: unknown) => Iterable<unknown> }
>;

self.onmessage = ({ data: { name, input } }: MessageEvent<AsideOrder>) => {
  const tell = (answer: AsideAnswer) => self.postMessage(answer);
  try {
    const run = works[name]?.run;
    if (run === undefined) throw new Error(`this page knows no work ${name}`);
    tell({ kind: "done", pieces: [...run(input)] });
  } catch (thrown) {
    const { code } = DcnrError.from(thrown);
    tell({ kind: "failed", code, message: messageOf(thrown) });
  }
};
