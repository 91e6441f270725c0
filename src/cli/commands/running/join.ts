// `dcnr join`: one command makes this machine a PNode, until Ctrl-C.

import { hostname, platform } from "node:os";
import { fail, hasCode, messageOf } from "../../../core/errors.ts";
import { sleep, type World } from "../../../core/world.ts";
import { collectorFrom } from "../../../monitoring/collector.ts";
import type { PNode } from "../../../pnode/pnode.ts";
import {
  formatAddress,
  isLoopback,
  isSocketAddress,
  isUnspecified,
  parseAddress,
  withKey,
} from "../../../protocol/routes/address.ts";
import { Reach } from "../../../protocol/routes/reach.ts";
import { linkVariable } from "../../../providers/join-command.ts";
import { tensorsToo } from "../../../relay/limits.ts";
import type { HardwareFacts } from "../../../system/machine/hardware.ts";
import { ownNetworks } from "../../../system/machine/own-address.ts";
import type { Command, Flags } from "../../command.ts";
import { checkAdvertised, checkLimits, thisMachine } from "../../flags/limits.ts";
import { logOptions, worldFrom } from "../../flags/logging.ts";
import { parseBytes, parseRate } from "../../flags/quantities.ts";
import { orchestratorPortDefault } from "../../joining/connection.ts";
import { wayIn } from "../../joining/ways-in.ts";
import { MemoryShare } from "../../lending/memory-share.ts";
import { askNetwork } from "../../lending/network-news.ts";
import { openLendingPage } from "../../lending/page.ts";
import { reachText } from "../../lending/reach-text.ts";
import { hoursText, ruleOptions, rulesFrom } from "../../lending/rules.ts";
import { Volunteering } from "../../lending/volunteering.ts";
import { standApart } from "../../machine/apart/apart.ts";
import { isConfined } from "../../machine/apart/confinement.ts";
import { takeBehindOrder } from "../../machine/apart/gate-order.ts";
import { dataDirectory, directoryOption } from "../../machine/directories.ts";
import { type GpuLending, gpuLendings } from "../../machine/lent-gpus.ts";
import { ownWires, wiresBehind } from "../../machine/lent-wires.ts";
import { holdDirectory } from "../../machine/one-user.ts";
import type { LentMachine, StartedPNode } from "../../machine/pnode-start.ts";
import { tellParent, untilAborted } from "../../machine/processes.ts";
import { softwareVersion } from "../../machine/software.ts";
import { bytes } from "../../shown/progress.ts";

export const command: Command = {
  summary: "Lend this machine to a network. Ctrl-C hands its work over and leaves.",
  details:
    "The address is that of any member, or a name whose addresses or SRV records (_dcnr._tcp) are tried; without one the local network is searched, and you are asked once. The machine's hardware is found out; limits are yours to set. Peers see the activations they exchange.",
  positionals: [{ name: "ADDRESS|LINK", many: true, optional: true }],
  options: {
    name: { type: "string", value: "NAME", summary: "name to show (default: the host's)" },
    cpus: {
      type: "number",
      least: 0.05,
      fraction: true,
      summary: "cores to lend, for example 4, or 0.5 for half of one (default: all)",
    },
    memory: { type: "string", value: "SIZE", summary: "memory to lend, for example 8GB (default: no limit)" },
    disk: { type: "string", value: "SIZE", summary: "disk to lend for caches" },
    gpu: {
      type: "string",
      value: gpuLendings.join("|"),
      summary:
        "GPUs to lend: those that the system knows, any that the runtime finds (drivers in software too), or none",
      default: "auto",
    },
    bandwidth: { type: "string", value: "RATE", summary: "bytes a second to send at most, for example 10MB/s" },
    ...ruleOptions,
    page: {
      type: "number",
      least: 0,
      most: 65_535,
      summary: "port of a page for you on this machine; 0: any (default: none)",
    },
    region: { type: "string", value: "NAME", summary: "where the machine is, for example eu-west", default: "" },
    provider: { type: "string", value: "NAME", summary: "who runs the machine", default: "" },
    price: { type: "number", fraction: true, summary: "price per hour", default: 0 },
    owner: {
      type: "string",
      value: "NAME",
      summary: "owner; replicas go to different owners (default: the PNode's id)",
    },
    listen: {
      type: "string",
      value: "ADDRESS",
      summary: "where peers reach it (default: loopback, or all interfaces for a remote orchestrator)",
    },
    advertise: { type: "string", value: "ADDRESS", summary: "address told to peers, behind a name or NAT" },
    reach: {
      type: "string",
      value: "NETWORK",
      many: true,
      summary: "private network it may call besides those of the addresses you give, for example 192.168.0.0/16",
    },
    websocket: {
      type: "boolean",
      summary:
        "call out over WebSockets alone, for networks that let only the web pass; also meant by an address wss://...",
    },
    relay: {
      type: "boolean",
      summary: "also relay for machines that cannot be called; needs an address that everybody reaches",
    },
    "relay-rate": { type: "string", value: "RATE", summary: "bytes a second to relay at most", default: "50MB/s" },
    unconfined: { type: "boolean", summary: "keep all rights of the user who starts it: files, programs, environment" },
    yes: { type: "boolean", summary: "without an address: join the network found here, without asking" },
    wait: { type: "boolean", summary: "go on trying if no orchestrator answers at the start" },
    dir: directoryOption,
    otlp: { type: "string", value: "URL", summary: "OpenTelemetry collector for traces of steps (default: none)" },
    ...logOptions,
  },
  examples: [
    "dcnr join 192.168.1.20:7700#rwvx4qxcf2qkn5m5k5mmsyzy2fvgfjp6hcmtqgqj3wq6v5s7r2fa",
    "dcnr join 192.168.1.20:7700",
    "dcnr join",
    "dcnr join 'dcnr://192.168.1.20:7700/rwvx4qxcf2qkn5m5k5mmsyzy2fvgfjp6hcmtqgqj3wq6v5s7r2fa?invite=...'",
    "dcnr join lab.example:7700 --cpus 4 --memory 8GB --hours 22-7",
  ],
  run: async ({ arguments: words, flags, out, signal, settings }) => {
    const outer = worldFrom(flags);
    const directory = dataDirectory(flags.optionalText("dir"), process.env, "pnode");
    const told = takeBehindOrder(process.env);
    const way = { directory, world: outer, out, yes: flags.is("yes"), link: process.env[linkVariable] };
    const { addresses, invite } = told ?? (await wayIn(words, way));
    const machine = machineFrom(addresses, flags);
    const web = flags.is("websocket") || addresses.some(isSocketAddress);
    const patienceMs = flags.is("wait") ? Number.POSITIVE_INFINITY : firstAttachmentMs;
    const rules = await rulesFrom(flags, platform());
    // macOS tells of its power by a program, which a confined process cannot ask.
    const asksPrograms = rules.onMains && platform() === "darwin";
    const page = flags.optionalNumber("page");
    const collector = collectorFrom(process.env, machine.otlp);
    // A child that talks with its parent was started with less in the first place, and calls only its own machine.
    const isApart = told === undefined && !flags.is("unconfined") && !asksPrograms && !isConfined() && !process.send;
    const behind = isApart
      ? await standApart({
          ...{ confined: machine, settings, options: command.options ?? {}, behind: { addresses, invite } },
          gate: {
            ...{ ...reachFrom(addresses, flags), web, listen: machine.listen },
            patienceMs: flags.is("wait") ? null : patienceMs,
            ...(page !== undefined && { page }),
            ...(collector && { collector }),
          },
        })
      : told;
    const held = await holdDirectory(machine.directory, `dcnr join as ${machine.name}`, outer);
    const own = { directory: machine.directory, name: machine.name, wantsBytes: machine.memoryBytes };
    const memory = await MemoryShare.enter(own, thisMachine().memoryBytes, outer);
    const volunteering = await Volunteering.open(machine.directory, rules, out, outer.clock);
    const json = flags.is("json");
    const screen = !json && out.isTerminal && process.stdin.isTTY === true && flags.text("log") === "auto";
    const world = screen ? { ...outer, log: volunteering.log } : outer;
    const say = (sentence: string) => out.note(sentence);
    const meeting = { ...{ directory: machine.directory, named: machine.orchestrators, reach: machine.reach, web } };
    const options = { ...meeting, world, say, signal, patienceMs };
    const wires = await (behind ? wiresBehind(behind, options) : ownWires(options));
    const { network } = wires;
    const orchestrators = await wires.orchestrators().catch((error: unknown) => {
      memory.leave();
      held.release();
      if (!hasCode(error, "unavailable") || flags.is("wait")) throw error;
      fail("unavailable", `${messageOf(error)} (--wait goes on trying)`, error);
    });
    const lent = { ...machine, memoryBytes: memory.bytes, orchestrators, invite, wires, web };
    // Not loaded by the process that only starts this one anew, with less.
    const { startRealPNode } = await import("../../machine/pnode-start.ts");
    const { pnode, hardware, cpus, workers, gflops, close } = await startRealPNode(lent, world, volunteering);
    memory.follow(pnode);
    tellParent({ address: pnode.address, id: pnode.id }, () => process.emit("SIGTERM"));
    const facts = {
      name: machine.name,
      network: addresses.join(", "),
      lends: () => lentText(machine, hardware, { cpus, gflops, memory }),
      news: () => askNetwork({ id: pnode.id, software: softwareVersion() }, orchestrators, network),
    };
    if (!json) {
      out.line(`PNode ${machine.name} (${pnode.id}) lends`);
      for (const line of facts.lends()) out.line(`  ${line}`);
      if (behind) out.line(`  ${behind.boundary}`);
    }
    const end = async () => {
      await volunteering.stop();
      await close();
      memory.leave();
      held.release();
      await wires.close();
    };
    try {
      await firstAttachment(pnode, flags.is("wait"), world, signal);
    } catch (error) {
      await pnode.stop();
      await end();
      throw error;
    }
    if (json && !signal.aborted)
      out.json({
        id: pnode.id,
        name: machine.name,
        address: pnode.address,
        pid: process.pid,
        workers,
        gflops,
        hardware,
      });
    else if (!signal.aborted) {
      await Promise.race([pnode.calledBack, sleep(world.timers, calledBackMs, signal)]);
      out.line(`Attached. ${reachText(pnode.reach)} Ctrl-C hands its work over and leaves.`);
    }
    const ownPage = page === undefined ? undefined : await openLendingPage(volunteering, page, wires.page);
    if (ownPage && !json) out.line(`Your page on this machine: ${ownPage.address}`);
    if (!signal.aborted) volunteering.begin(pnode, { ...facts, page: ownPage?.address }, screen);
    await untilAborted(AbortSignal.any([signal, volunteering.leaving]));
    ownPage?.close();
    volunteering.closeScreen();
    if (!json) out.note("handing VNodes over ... (Ctrl-C again to stop at once)");
    await pnode.leave("the owner took the machine back");
    await end();
    return 0;
  },
};

/** What is lent, in the lines of the screen. */
function lentText(
  machine: LentMachine,
  hardware: HardwareFacts,
  { cpus, gflops, memory }: Pick<StartedPNode, "cpus" | "gflops"> & { readonly memory: MemoryShare },
): string[] {
  const limits = [
    `${machine.memoryBytes ? "up to " : ""}${bytes(memory.bytes)} of memory`,
    hardware.gpus.map(({ model, driver }) => (driver ? `${model} (${driver})` : model)).join(", "),
    machine.diskBytes ? `up to ${bytes(machine.diskBytes)} of disk` : "",
    machine.bandwidthBytesPerSecond ? `up to ${bytes(machine.bandwidthBytesPerSecond)} a second` : "",
    machine.hours ? hoursText(machine.hours) : "",
  ];
  return [
    `${cpus} of ${hardware.cores} cores of ${hardware.cpuModel}, ${gflops.toFixed(0)} GFLOP/s`,
    limits.filter(Boolean).join(", "),
    memory.text,
  ].filter(Boolean);
}

function gpuLending(text: string): GpuLending {
  const known = gpuLendings.find((lending) => lending === text);
  return known ?? fail("invalid_argument", `--gpu takes ${gpuLendings.join(", ")}, not ${text}`);
}

/** How long a callback may take before it is only said that it did not come yet. */
const calledBackMs = 6_000;

/** An orchestrator that starts at the same time as its PNodes needs a moment; a wrong address stays wrong. */
const firstAttachmentMs = 10_000;

async function firstAttachment(pnode: PNode, wait: boolean, world: World, signal: AbortSignal): Promise<void> {
  const tooLong = new AbortController();
  const cancel = wait ? () => {} : world.timers.after(firstAttachmentMs, () => tooLong.abort());
  await Promise.race([pnode.attached, untilAborted(signal), untilAborted(tooLong.signal)]);
  cancel();
  if (tooLong.signal.aborted) fail("unavailable", `${pnode.problems()[0] ?? "not attached"} (--wait goes on trying)`);
}

/** Where the owner sends the machine, and which private networks are open to it besides those of these places. */
function reachFrom(addresses: readonly string[], flags: Flags) {
  const parsed = addresses.map((address) => parseAddress(address, orchestratorPortDefault));
  const named = parsed.map(({ host, port, key, secure }) => {
    if (secure)
      fail("invalid_argument", "a PNode proves its key to the orchestrator itself: give host:port, not https://");
    const place = formatAddress(host, port);
    return key === undefined ? place : withKey(place, key);
  });
  // An orchestrator on this machine is its owner's, and so are those who join it from the networks around.
  const around = parsed.some(({ host }) => isLoopback(host) || isUnspecified(host)) ? ownNetworks() : [];
  return { named, networks: [...around, ...flags.texts("reach").flatMap((one) => one.split(","))] };
}

export function machineFrom(addresses: readonly string[], flags: Flags): LentMachine {
  const parsed = addresses.map((address) => parseAddress(address, orchestratorPortDefault));
  const local = parsed.every(({ host }) => isLoopback(host));
  const size = (flag: string) => (flags.has(flag) ? parseBytes(flags.text(flag), `--${flag}`) : 0);
  const cpus = flags.optionalNumber("cpus") ?? 0;
  const memoryBytes = size("memory");
  checkLimits({ cpus, memoryBytes }, thisMachine());
  const advertise = flags.optionalText("advertise");
  if (advertise !== undefined) checkAdvertised(advertise);
  const name = flags.optionalText("name") ?? hostname();
  const { named, networks } = reachFrom(addresses, flags);
  return {
    orchestrators: named,
    reach: new Reach(named, networks),
    directory: dataDirectory(flags.optionalText("dir"), process.env, "pnode"),
    name,
    owner: flags.optionalText("owner") ?? "",
    listen: flags.optionalText("listen") ?? (local ? "127.0.0.1:0" : "0.0.0.0:0"),
    ...(advertise === undefined ? {} : { advertise }),
    cpus,
    memoryBytes,
    diskBytes: size("disk"),
    gpus: gpuLending(flags.text("gpu")),
    bandwidthBytesPerSecond: flags.has("bandwidth") ? parseRate(flags.text("bandwidth"), "--bandwidth") : 0,
    hours: flags.optionalText("hours") ?? "",
    ...(flags.is("relay") ? { relay: tensorsToo(parseRate(flags.text("relay-rate"), "--relay-rate")) } : {}),
    region: flags.text("region"),
    provider: flags.text("provider"),
    pricePerHour: flags.number("price"),
    ...(flags.has("otlp") ? { otlp: flags.text("otlp") } : {}),
  };
}
