// `dcnr up`: an orchestrator and some PNodes as processes on this machine, until Ctrl-C.

import { availableParallelism } from "node:os";
import { isUnspecified, parseAddress } from "../../../protocol/routes/address.ts";
import { realWorld } from "../../../system/world.ts";
import type { Command } from "../../command.ts";
import { checkLimits, thisMachine } from "../../flags/limits.ts";
import { logOptions } from "../../flags/logging.ts";
import { orchestratorDefault } from "../../joining/connection.ts";
import { dataDirectory, directoryOption } from "../../machine/directories.ts";
import { LocalNetwork } from "../../machine/local-network.ts";
import { holdDirectory } from "../../machine/one-user.ts";
import { endOf, untilAborted } from "../../machine/processes.ts";

export const command: Command = {
  summary: "Bring up a whole network on this machine: an orchestrator and PNodes as separate processes.",
  details:
    "State is kept in the directory: stop it, start it again, and sessions go on where they were. A directory has one user at a time.",
  options: {
    pnodes: { type: "number", most: 64, summary: "PNodes to start", default: 3 },
    listen: {
      type: "string",
      value: "ADDRESS",
      summary: "where the orchestrator listens",
      default: orchestratorDefault,
    },
    cpus: {
      type: "number",
      least: 0.05,
      fraction: true,
      summary: "cores that each PNode lends, or 0.5 for half of one (default: the machine's, divided)",
    },
    dir: directoryOption,
    store: { type: "string", value: "STORE", summary: "state store (default: SQLite in the directory)" },
    blobs: { type: "string", value: "BLOBS", summary: "blob store (default: a folder in the directory)" },
    "log-level": logOptions["log-level"]!,
  },
  examples: ["dcnr up", "dcnr up --pnodes 5 --listen 127.0.0.1:8800 --dir ./lab"],
  run: async ({ flags, out, signal }) => {
    const pnodes = flags.number("pnodes");
    checkLimits({ cpus: flags.optionalNumber("cpus") ?? 0, memoryBytes: 0 }, thisMachine());
    const directory = dataDirectory(flags.optionalText("dir"), process.env);
    const held = await holdDirectory(directory, "dcnr up", realWorld({ logFormat: "none" }), 0);
    if (!flags.is("json"))
      out.note(
        `starting an orchestrator and ${pnodes === 1 ? "a PNode" : `${pnodes} PNodes`}, each a process of its own ...`,
      );
    const network = await LocalNetwork.start({
      directory,
      listen: flags.text("listen"),
      pnodes,
      cpusPerPNode:
        flags.optionalNumber("cpus") ?? Math.max(1, Math.floor(availableParallelism() / Math.max(1, pnodes))),
      logLevel: flags.text("log-level"),
      ...(flags.has("store") ? { store: flags.text("store") } : {}),
      ...(flags.has("blobs") ? { blobs: flags.text("blobs") } : {}),
    });
    const { orchestrator } = network;
    held.describe(orchestrator.address);
    // One that listens everywhere is best called at loopback from here: local calls need no key.
    const everywhere = isUnspecified(parseAddress(flags.text("listen")).host);
    const here = everywhere ? `127.0.0.1:${parseAddress(orchestrator.address).port}` : orchestrator.address;
    if (flags.is("json")) {
      const members = network.pnodes.map(({ name, pid, id }) => ({ name, pid, id }));
      out.json({
        orchestrator: { address: orchestrator.address, pid: orchestrator.pid, id: orchestrator.id },
        pnodes: members,
      });
    } else {
      out.line(`orchestrator  http://${orchestrator.address}  (pid ${orchestrator.pid}; the dashboard is there too)`);
      for (const { name, pid } of network.pnodes) out.line(`PNode         ${name}  (pid ${pid})`);
      out.line();
      out.advice(
        `Try, in another terminal: dcnr status${here === orchestratorDefault ? "" : ` --orchestrator ${here}`}`,
      );
      out.line("Ctrl-C ends it.");
    }
    for (const child of network.pnodes)
      void child.ended.then(
        (code) => signal.aborted || out.note(`PNode ${child.name} ${endOf(code)}; what it hosted goes to the others`),
      );
    await Promise.race([untilAborted(signal), orchestrator.ended]);
    await network.stop();
    held.release();
    return signal.aborted ? 0 : 1;
  },
};
