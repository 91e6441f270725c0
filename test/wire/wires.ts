// A fleet of real processes whose every connection goes through a proxy, and a session that is trained while those
// connections fail, volley after volley.

import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";
import type { Session } from "../../src/protocol/gen/dcnr/v1/session_pb.ts";
import { Training } from "../chaos/training.ts";
import { directions, type Fault, FaultyProxy, kinds, phases } from "./proxy.ts";

export interface WiresOptions {
  readonly pnodes: number;
  readonly steps: number;
  readonly volleys: readonly Volley[];
  readonly print: (line: string) => void;
}

/** What happens at once: to the wires between PNodes, or to those to the orchestrator. */
export interface Volley extends Fault {
  readonly where: "peers" | "orchestrator";
}

export interface WiresReport {
  readonly root: string;
  readonly roots: readonly string[];
  readonly faults: number;
  /** The longest time without a step, and what came before it. */
  readonly standstillMs: number;
  readonly standstill: string;
}

/** Every fault there is. */
export function everyFault(): Volley[] {
  return phases.flatMap((phase) =>
    kinds.flatMap((kind) =>
      directions.flatMap((direction) =>
        (["peers", "orchestrator"] as const).map((where) => ({ where, phase, kind, direction })),
      ),
    ),
  );
}

export async function disturbWires({ pnodes, steps, volleys, print }: WiresOptions): Promise<WiresReport> {
  const directory = await mkdtemp(join(tmpdir(), "dcnr-wires-"));
  const proxies: FaultyProxy[] = [];
  const children: Child[] = [];
  const proxied = async () => {
    const port = await freePort();
    const proxy = new FaultyProxy(port);
    await proxy.start();
    proxies.push(proxy);
    return { listen: `127.0.0.1:${port}`, proxy };
  };
  const start = async (name: string, command: string[], { listen, proxy }: Awaited<ReturnType<typeof proxied>>) => {
    const place = ["--dir", join(directory, name), "--listen", listen, "--advertise", proxy.address];
    children.push(await startChild(name, [...command, ...place, "--log-level", "error"]));
  };
  try {
    const control = await proxied();
    await start("orchestrator", ["orchestrator"], control);
    const peers: FaultyProxy[] = [];
    for (let index = 0; index < pnodes; index++) {
      const own = await proxied();
      peers.push(own.proxy);
      await start(`pnode-${index}`, ["join", control.proxy.address, "--name", `pnode-${index}`, "--cpus", "1"], own);
    }
    // What a person asks goes its own way: only the network's own wires are disturbed.
    const training = new Training([control.listen]);
    await training.prepare();
    const watch = new Progress();
    const { root } = await training.round("undisturbed", steps, undefined, { spread: pnodes });
    const roots: string[] = [];
    let attachedAt = 0;
    const left = [...volleys];
    const fire = () => {
      // PNodes that register more often than every few seconds are taken for flapping and have to wait.
      const mayBe = ({ where }: Volley) => where === "peers" || watch.looks - attachedAt > registerEveryMs / lookMs;
      const index = left.findIndex(mayBe);
      const [volley] = index < 0 ? [] : left.splice(index, 1);
      if (volley === undefined) return;
      if (volley.where === "orchestrator") attachedAt = watch.looks;
      watch.fault = `${volley.kind} ${volley.direction} at ${volley.phase} of ${volley.where}`;
      for (const proxy of volley.where === "peers" ? peers : [control.proxy]) {
        // New connections fail in the given phase; those that stand are cut for that, or fail themselves.
        if (volley.phase === "flow") proxy.strike(volley.kind, volley.direction);
        else {
          proxy.arm(volley);
          proxy.strike("reset", "there");
        }
      }
    };
    while (left.length > 0) {
      const name = `disturbed-${roots.length + 1}`;
      let sinceFire = 0;
      const onLook = ({ step, reason }: Session) => {
        const stoodMs = watch.standsMs;
        const goesOn = watch.look(Number(step), reason);
        if (goesOn && stoodMs > tellMs)
          print(`  stood ${stoodMs} ms after ${watch.fault}: ${watch.reasons.join(" / ")}`);
        // The next volley comes when the session has got over the last one.
        if (goesOn && ++sinceFire >= 2) {
          sinceFire = 0;
          fire();
        }
      };
      const round = await training.round(name, steps, undefined, { spread: pnodes, onLook });
      roots.push(round.root);
      watch.rest();
      print(`${name}: ${left.length} volleys left, longest standstill ${watch.longestMs} ms (${watch.after})`);
    }
    const faults = proxies.reduce((sum, { struck }) => sum + struck, 0);
    return { root, roots, faults, standstillMs: watch.longestMs, standstill: watch.after };
  } finally {
    await Promise.all(children.map((child) => stopChild(child)));
    for (const proxy of proxies) proxy.close();
    await rm(directory, { recursive: true, force: true });
  }
}

/** The usual time between two looks at a session. */
const lookMs = 100;
const registerEveryMs = 8_000;
/** Longer standstills are told with what the network gave as their reason. */
const tellMs = 5_000;

/** Counts standstills in looks rather than by the clock: a machine that is busy elsewhere looks less often. */
class Progress {
  #step = -1;
  #looks = 0;
  /** All there were. */
  looks = 0;
  fault = "nothing";
  longestMs = 0;
  after = "";
  reasons: string[] = [];

  get standsMs(): number {
    return this.#looks * lookMs;
  }

  /** True if there are steps that were not there before. */
  look(step: number, reason: string): boolean {
    this.looks++;
    if (this.reasons.at(-1) !== reason) this.reasons.push(reason);
    if (step > this.#step) {
      this.#step = step;
      this.#looks = 0;
      return true;
    }
    if (this.#looks++ === 0) this.reasons = [reason];
    if (this.standsMs > this.longestMs) [this.longestMs, this.after] = [this.standsMs, this.fault];
    return false;
  }

  /** Another session begins. */
  rest(): void {
    this.#step = -1;
    this.#looks = 0;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}
