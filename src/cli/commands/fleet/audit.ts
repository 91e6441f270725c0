// `dcnr audit`: repeats one interval of one VNode from a network's store and blobs, without any of its processes, and
// compares it with what the VNode's owner signed.

import { asideHere } from "../../../core/aside.ts";
import { bits } from "../../../core/bits.ts";
import { fail } from "../../../core/errors.ts";
import { sha256 } from "../../../core/hash.ts";
import type { PNodeId, SessionId, Sha256, VNodeId } from "../../../core/ids.ts";
import { trainingToWire } from "../../../network/settings/wire.ts";
import type { IntervalRecord, Premise, StandingRecord } from "../../../orchestrator/records/checking.ts";
import type { PNodeRecord } from "../../../orchestrator/records/machines.ts";
import type { SessionRecord } from "../../../orchestrator/records/sessions.ts";
import { key, prefix } from "../../../orchestrator/records/store-keys.ts";
import { type KeptWork, keptWork } from "../../../orchestrator/trust/kept-work.ts";
import { replay, type Subject } from "../../../pnode/auditing/replay.ts";
import { checkSession, SessionContext } from "../../../pnode/session-context.ts";
import { listsOf } from "../../../pnode/stating.ts";
import { cutState, describeImage, piecesOf } from "../../../states/cut.ts";
import { readStateManifest, writeStateManifest } from "../../../states/manifest.ts";
import type { BlobStore } from "../../../store/blobs/blob-store.ts";
import type { StateStore } from "../../../store/records/state-store.ts";
import { listItems, readItem } from "../../../store/records/update.ts";
import { digestAside } from "../../../system/digest.ts";
import { verifyBy } from "../../../system/keys.ts";
import { realWorld } from "../../../system/world.ts";
import { readInputs, readOutputMessages } from "../../../trust/lists.ts";
import { isSignedBy, resultOf } from "../../../trust/statement.ts";
import { openProcess } from "../../../vnode/process.ts";
import type { Command } from "../../command.ts";
import { pnodeAmong } from "../../flags/pnode-names.ts";
import { readerOf, storeOptions, withStores } from "../../machine/stores.ts";

export const command: Command = {
  summary:
    "Repeat one interval of a VNode from the network's store and blobs, and compare it with what its owner signed.",
  details:
    "Needs no orchestrator and no PNode: whoever can read the store and the blobs can do it. What is kept for audits can be " +
    "repeated: intervals that are being checked, or were found wrong (dcnr trust PNODE tells the command).",
  positionals: [{ name: "SESSION" }, { name: "VNODE" }, { name: "STEP" }],
  options: {
    ...storeOptions,
    of: {
      type: "string",
      value: "PNODE",
      summary: "whose work (default: of who was found wrong there, or of any owner)",
    },
    turn: {
      type: "number",
      value: "T",
      summary: "how often the session had gone back by then (default: the last that is kept)",
    },
    json: { type: "boolean", summary: "machine-readable output" },
  },
  examples: [
    "dcnr audit mlp-3f2a9c1b7d04 hidden 40",
    "dcnr audit mlp-3f2a9c1b7d04 hidden 40 --of maple --turn 2",
    "dcnr audit mlp-3f2a9c1b7d04 hidden 40 --blobs s3://models/dcnr --store postgres://dcnr@db/dcnr",
  ],
  run: async ({ flags, out, signal, arguments: given }) => {
    const [id = "", vnode = "", stepText = ""] = given;
    const step = Number(stepText);
    if (!Number.isSafeInteger(step) || step < 0) fail("invalid_argument", `"${stepText}" is not a step`);
    return withStores(flags, async (store, blobs) => {
      const session = (await readItem<SessionRecord>(store, key.session(id)))?.record;
      if (session === undefined) fail("not_found", `the store has no session ${id}`);
      const { of, turn } = { of: flags.optionalText("of"), turn: flags.optionalNumber("turn") };
      const work = await keptIn(store, session.id, { vnode, step, of, turn });
      const { interval, stated, pnode, checkedTo } = work;
      const found = await repeat(blobs, session, work, signal);
      const sound = isSignedBy(stated.statement, stated.pnode, verifyBy);
      const verdict = {
        ...{
          session: id,
          vnode,
          from: interval.from,
          to: interval.to,
          turn: interval.turn,
          owner: pnode,
          signed: sound,
        },
        ...{ right: found.difference === undefined, difference: found.difference ?? "" },
      };
      if (flags.is("json")) out.json(verdict);
      else {
        const by = `stated by PNode ${stated.pnode}${sound ? "" : " (NOT signed by it)"}`;
        const checked = checkedTo === undefined ? "" : ` and checked by PNode ${pnode}`;
        out.line(`VNode ${vnode}, steps ${interval.from} to ${interval.to}, ${by}${checked}`);
        out.line(
          found.difference === undefined ? "right: the same state and messages come out" : `wrong: ${found.difference}`,
        );
      }
      return verdict.right && sound ? 0 : 1;
    });
  },
};

interface Asked {
  readonly vnode: string;
  readonly step: number;
  /** Name, id or its beginning. */
  readonly of: string | undefined;
  readonly turn: number | undefined;
}

async function keptIn(
  store: StateStore,
  session: SessionId,
  { vnode, step, of: called, turn }: Asked,
): Promise<KeptWork> {
  const kept: IntervalRecord[] = [];
  for (const prefixed of [prefix.intervalsOf(session), prefix.convictionsOf(session)])
    for await (const { record } of listItems<IntervalRecord>(store, prefixed)) kept.push(record);
  const of = called === undefined ? undefined : await pnodeIn(store, called);
  const work = keptWork(kept, { vnode, step, ...(of ? { of } : {}), ...(turn === undefined ? {} : { turn }) });
  const whose = `${called === undefined ? "" : ` by PNode ${called}`}${turn === undefined ? "" : ` in turn ${turn}`}`;
  return (
    work ??
    fail(
      "not_found",
      `nothing is kept of VNode ${vnode} around step ${step}${whose}: only what is being checked, or was found wrong, can be repeated`,
    )
  );
}

/** A machine that was forgotten is still called by its id. */
async function pnodeIn(store: StateStore, called: string): Promise<PNodeId> {
  const all: { readonly id: PNodeId; readonly name: string }[] = [];
  for await (const { record } of listItems<PNodeRecord>(store, prefix.pnodes)) all.push(record);
  for await (const { record } of listItems<StandingRecord>(store, prefix.standings))
    if (!all.some(({ id }) => id === record.pnode)) all.push({ id: record.pnode, name: "" });
  return pnodeAmong(all, called).id;
}

/** What comes out, and where that first differs from what was stated. */
async function repeat(
  blobs: BlobStore,
  session: SessionRecord,
  { stated: { statement, beside = [] }, checkedTo = resultOf(statement), pnode }: KeptWork,
  signal: AbortSignal,
) {
  const { from, to } = statement;
  const vnode = statement.vnode as VNodeId;
  const definition = new TextDecoder().decode(await blobs.definitions.get(session.identity.definition));
  const { openExecutor } = await import("../../../engine/pool/threads.ts");
  const { numerics } = session.identity;
  if (numerics === "mixed")
    fail(
      "failed_precondition",
      `the lanes of session ${session.id} have each a class of their own: they are not audited`,
    );
  const executor = await openExecutor({ kind: numerics, workers: 1 });
  try {
    const context = await SessionContext.open({
      ...{ session: session.id, bits, check: checkSession, aside: asideHere, clock: realWorld().clock, signal },
      executorFor: async () => executor,
      // Whose class is not known compares nothing, and says of the state what was said of the one before it.
      rounding: { classOf: () => undefined, onOther: () => {} },
      engineOf: () => numerics,
      shardBytesMax: 128 << 20,
      onDataWait: () => {},
      blobs: { fetch: async (_session: string, hash: Sha256) => blobs.datasets.get(hash) },
      describe: async () =>
        ({ session: session.id, definition, work: { case: "training", value: trainingToWire(session) } }) as never,
    });
    const interval = { session: session.id, vnode, from, to };
    const subjectOf = async ({ vnode: id, before, inputs }: Premise): Promise<Subject> => ({
      vnode: id as VNodeId,
      before: before === "" ? undefined : await readerOf(blobs.states, before as Sha256),
      inputs: readInputs(await blobs.states.get(inputs as Sha256), { ...interval, vnode: id }),
    });
    const [{ passage, compute }, ...others] = await replay({
      ...{ context, from, to, openProcess, signal, name: "audit" },
      ...(await subjectOf(statement)),
      beside: await Promise.all(beside.map(subjectOf)),
      openMessages: (hashes) => (at) => blobs.states.get(hashes[at] as Sha256),
    });
    for (const other of others) await other.compute.close();
    await compute.state.download();
    const image = compute.state.snapshot(to);
    const { partBytes } = readStateManifest(await blobs.states.get(statement.after), "the stated state");
    const manifest = await cutState(describeImage(image), piecesOf(image), {
      partBytes,
      digest: digestAside,
      onPart: () => {},
    });
    await compute.close();
    const { outputs } = listsOf({ session: session.id, vnode }, passage);
    const { edges, validation } = passage;
    const found = { after: sha256(writeStateManifest(manifest)), outputs: outputs.hash, edges };
    const result = resultOf({ ...found, ...(validation ? { validation } : {}) });
    if (result === checkedTo) return {};
    if (result === resultOf(statement))
      return { difference: `PNode ${pnode}, which checked it, came to something else` };
    const said = readOutputMessages(await blobs.states.get(statement.outputs), interval);
    const message = passage.outputs.messages.find(([name, hash]) => said.get(name) !== hash);
    return {
      difference: message ? `message ${message[0]} is another` : "the state after it, or what was measured, is another",
    };
  } finally {
    await executor.close();
  }
}
