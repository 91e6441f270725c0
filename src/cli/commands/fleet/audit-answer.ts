// `dcnr audit answer`: repeats an answer that was found wrong from a network's store and blobs, without any of its processes.

import { fromJsonString } from "@bufbuild/protobuf";
import { asideHere } from "../../../core/aside.ts";
import { bits } from "../../../core/bits.ts";
import { fail } from "../../../core/errors.ts";
import { parseSha256, type Sha256 } from "../../../core/ids.ts";
import { isAnswered } from "../../../orchestrator/answers/judging.ts";
import type { FindingRecord } from "../../../orchestrator/records/checking.ts";
import { prefix } from "../../../orchestrator/records/store-keys.ts";
import { repeatAnswer } from "../../../pnode/auditing/repeat-answer.ts";
import { Schemas } from "../../../pnode/serving/schemas.ts";
import { checkServed, ServingContext } from "../../../pnode/serving/serving-context.ts";
import { tokenRequest } from "../../../pnode/serving/token-request.ts";
import { GenerateTokensRequestSchema } from "../../../protocol/gen/dcnr/v1/serving_pb.ts";
import type { BlobStore } from "../../../store/blobs/blob-store.ts";
import type { StateStore } from "../../../store/records/state-store.ts";
import { listItems } from "../../../store/records/update.ts";
import type { Command } from "../../command.ts";
import { readerOf, storeOptions, withStores } from "../../machine/stores.ts";

export const command: Command = {
  summary: "Repeat an answer of a served model that was found wrong, from the network's store and blobs.",
  details:
    "Needs no orchestrator and no PNode: whoever can read the store and the blobs can do it. The last wrong answers are kept, " +
    "with their prompts (dcnr trust PNODE tells the command). Tokens may differ where this machine rounds otherwise.",
  positionals: [{ name: "ANSWER" }],
  options: { ...storeOptions, json: { type: "boolean", summary: "machine-readable output" } },
  examples: ["dcnr audit answer e7387ff3e658", "dcnr audit answer e7387ff3e658 --store postgres://dcnr@db/dcnr"],
  run: ({ flags, out, signal, arguments: given }) =>
    withStores(flags, async (store, blobs) => {
      const [id = ""] = given;
      const finding = await kept(store, id);
      const found = await repeated(blobs, finding, signal);
      const verdict = {
        ...{ answer: id, model: finding.model, owner: finding.pnode, right: isAnswered(finding, found) },
        ...{ answered: finding.answer, repeated: found.tokens },
      };
      if (flags.is("json")) out.json(verdict);
      else {
        out.line(`An answer of model ${finding.model}, for which PNode ${finding.pnode} is blamed: ${finding.story}`);
        out.line(`answered: ${finding.answer.join(" ")}`);
        out.line(`repeated: ${found.tokens.join(" ")}`);
        out.line(
          verdict.right
            ? "right: the same tokens come out (what passed between its machines may still have been wrong)"
            : "wrong: something else comes out",
        );
      }
      return verdict.right ? 0 : 1;
    }),
};

async function kept(store: StateStore, id: string): Promise<FindingRecord> {
  for await (const { record } of listItems<FindingRecord>(store, prefix.findings)) if (record.id === id) return record;
  return fail("not_found", `no wrong answer ${id} is kept: dcnr trust PNODE tells which are`);
}

async function repeated(
  blobs: BlobStore,
  { work, replica, asked, answer, finish }: FindingRecord,
  signal: AbortSignal,
) {
  const definition = new TextDecoder().decode(await blobs.definitions.get(parseSha256(work.definition, "the network")));
  checkServed({ replica, definition, work: { ...work, bits } }, bits);
  const context = await ServingContext.of(replica, definition, { ...work, audited: true }, asideHere);
  const question = fromJsonString(GenerateTokensRequestSchema, asked);
  const { openExecutor } = await import("../../../engine/pool/threads.ts");
  const executor = await openExecutor({ kind: context.numerics, workers: 1 });
  try {
    const openState = (state: Sha256) => readerOf(blobs.states, state);
    const request = tokenRequest({ ...question, sent: [] }, context.plan.inputs?.below ?? 0, context.adapters);
    const fetchVocabulary = async (_replica: string, hash: Sha256) => blobs.vocabularies.get(hash);
    const schemas = new Schemas({ blobs: { fetchVocabulary }, aside: asideHere, signal });
    const constraint = await schemas.constraintOf(question, context);
    const needs = { context, executor, openState, name: "audit", signal };
    return await repeatAnswer(needs, { asked: { ...request, constraint }, answer, finish });
  } finally {
    await executor.close();
  }
}
