// The dedicated worker in which a page's PNode lives. The page tells it what its owner wants, and is told what it does.

import { messageOf } from "../core/errors.ts";
import { every } from "../core/world.ts";
import type { FromTab, ToTab } from "./messages.ts";
import { type StartedTab, startTabPNode } from "./tab-pnode.ts";
import { tabTimers, tabWorld } from "./world.ts";

const statusMs = 500;

const tell = (message: FromTab) => self.postMessage(message);
const done = { pieces: 0, computedMs: 0 };
let refusal = "";
/** Where blobs lie that this page cannot fetch: then it is of no use, and says so. */
let foreign: string | undefined;
let started: StartedTab | undefined;
let leaving: string | undefined;

self.onmessage = ({ data }: MessageEvent<ToTab>) => {
  switch (data.kind) {
    case "start":
      void start(data);
      break;
    case "refusal":
      refusal = data.why;
      break;
    case "leave":
      void leave(data.reason);
      break;
  }
};

async function start({ scripts, wishes }: ToTab & { kind: "start" }): Promise<void> {
  try {
    started = await startTabPNode({
      ...{ scripts, wishes },
      world: tabWorld((level, line) => tell({ kind: "log", line: `${level}: ${line}` })),
      lends: () => refusal === "" && foreign === undefined,
      onForeign: (host) => {
        foreign = host;
      },
      onWork: ({ durationMs }) => {
        done.pieces += 1;
        done.computedMs += durationMs;
      },
      doing: (what) => tell({ kind: "doing", what }),
    });
    // Asked to leave while it was starting.
    if (leaving !== undefined) return await leave(leaving);
    tellStatus(started);
    every(tabTimers, statusMs, () => started && tellStatus(started));
  } catch (error) {
    tell({ kind: "failed", why: messageOf(error) });
  }
}

function tellStatus({ pnode, identity, gflops, gpu }: StartedTab): void {
  const { attached, vnodes } = pnode.readings();
  tell({
    kind: "status",
    status: {
      ...{ id: pnode.id, isKept: identity.isKept, attached, gflops, gpu: gpu(), ...done },
      reached: pnode.reach.how,
      problems: [
        ...(foreign === undefined
          ? []
          : [`lends nothing: the network keeps its blobs at ${foreign}, which a page cannot reach; use dcnr join`]),
        ...pnode.problems(),
      ],
      vnodes: vnodes.map(({ session, vnode, step, phase }) => ({ session, vnode, step: Number(step), phase })),
    },
  });
}

async function leave(reason: string): Promise<void> {
  leaving = reason;
  if (started === undefined) return;
  try {
    await started.pnode.leave(reason);
  } finally {
    tell({ kind: "left" });
  }
}
