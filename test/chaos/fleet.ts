// Real processes to be killed: orchestrators on one SQLite store and PNodes, each restarted under its old name,
// directory and port when it was killed.

import { createServer } from "node:net";
import { join } from "node:path";
import { type Child, startChild, stopChild } from "../../src/cli/machine/processes.ts";

export interface FleetOptions {
  readonly directory: string;
  readonly orchestrators: number;
  readonly pnodes: number;
  /** Room for one or two VNodes of the reduced T1 by default, so that the network spreads and every PNode matters. */
  readonly memory?: string;
}

const startAttemptsMax = 3;

export interface Member {
  readonly name: string;
  readonly role: "orchestrator" | "pnode";
  readonly args: readonly string[];
  child: Child | undefined;
  /** Stopped by SIGSTOP, or being started: not to be hit again before it is back. */
  busy: boolean;
}

export class Fleet {
  readonly addresses: readonly string[];
  readonly members: readonly Member[];

  private constructor(addresses: readonly string[], members: readonly Member[]) {
    this.addresses = addresses;
    this.members = members;
  }

  static async start({ directory, orchestrators, pnodes, memory = "148MB" }: FleetOptions): Promise<Fleet> {
    const ports = await freePorts(orchestrators);
    const addresses = ports.map((port) => `127.0.0.1:${port}`);
    const store = ["--store", `sqlite:${join(directory, "state.db")}`, "--blobs", `dir:${join(directory, "blobs")}`];
    const members: Member[] = [
      ...addresses.map((address, index) =>
        member("orchestrator", `orchestrator-${index + 1}`, [
          "orchestrator",
          "--listen",
          address,
          "--dir",
          directory,
          ...store,
        ]),
      ),
      ...Array.from({ length: pnodes }, (_, index) => {
        const name = `pnode-${index + 1}`;
        const own = [
          "--name",
          name,
          "--owner",
          name,
          "--dir",
          join(directory, name),
          "--cpus",
          "1",
          "--wait",
          "--memory",
          memory,
        ];
        // Each knows all orchestrators, the first being another one for each.
        const first = index % addresses.length;
        return member("pnode", name, ["join", ...addresses.slice(first), ...addresses.slice(0, first), ...own]);
      }),
    ];
    const fleet = new Fleet(addresses, members);
    try {
      // One orchestrator first: it makes the tables.
      for (const one of members.filter(({ role }) => role === "orchestrator")) await fleet.up(one);
      const started = await Promise.allSettled(
        members.filter(({ role }) => role === "pnode").map((one) => fleet.up(one)),
      );
      for (const outcome of started) if (outcome.status === "rejected") throw outcome.reason;
    } catch (error) {
      await fleet.stop();
      throw error;
    }
    return fleet;
  }

  async up(one: Member): Promise<void> {
    one.child = await startChild(one.name, one.args, { DCNR_LOG_LEVEL: "error" });
  }

  async kill(one: Member): Promise<void> {
    one.child?.kill("SIGKILL");
    await one.child?.ended;
    one.child = undefined;
  }

  /** Kills it and starts it again a little later. */
  async killAndRestart(one: Member, downMs: number): Promise<void> {
    one.busy = true;
    one.child?.kill("SIGKILL");
    await one.child?.ended;
    await pause(downMs);
    await this.upAgain(one);
    one.busy = false;
  }

  /** On a machine that is busy with dying and starting processes a start may take too long; a supervisor tries again. */
  async upAgain(one: Member): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.up(one);
      } catch (error) {
        if (attempt === startAttemptsMax) throw error;
      }
    }
  }

  async freeze(one: Member, durationMs: number): Promise<void> {
    one.busy = true;
    one.child?.kill("SIGSTOP");
    await pause(durationMs);
    one.child?.kill("SIGCONT");
    one.busy = false;
  }

  async stop(): Promise<void> {
    for (const { child } of this.members) child?.kill("SIGCONT");
    await Promise.all(this.members.flatMap(({ child }) => (child === undefined ? [] : [stopChild(child, 3_000)])));
  }
}

function member(role: Member["role"], name: string, args: readonly string[]): Member {
  return { name, role, args: [...args, "--log-level", "error"], child: undefined, busy: false };
}

export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** All held open until all are known, so that none is given twice. */
async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, () => {
      const server = createServer();
      return new Promise<typeof server>((resolve, reject) =>
        server.once("error", reject).listen(0, "127.0.0.1", () => resolve(server)),
      );
    }),
  );
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
