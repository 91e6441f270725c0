// Whether two machines behind routers come to a direct way, without anything of DCNR but its wires: short enough for `npm test`.
// Started in a namespace of its own (run.ts) with the kinds of both routers.

import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { Houses, internetHost, type Router } from "./houses.ts";

const peer = join(import.meta.dirname, "peer.ts");
const [left, right] = process.argv.slice(2) as [Router, Router];
const houses = new Houses();

function nextLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => child.stdout?.once("data", (text: Buffer) => resolve(text.toString().trim())));
}

try {
  const relay = houses.startProgram(peer, "relay", `${internetHost}:443`);
  const relayAt = await nextLine(relay);
  const [one, other] = [await houses.home("left", left), await houses.home("right", right)];
  const route = await nextLine(one.startProgram(peer, "waits", relayAt));
  await nextLine(other.startProgram(peer, "calls", relayAt, route));
  const told = nextLine(relay);
  relay.kill("SIGUSR2");
  console.log(await told);
  console.log("done");
} finally {
  houses.leave();
}
