// A pass between the wire's form and ours. What comes from outside is checked here.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { fail } from "../../core/errors.ts";
import type { PassSchema, Pass as ProtoPass } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import { type Pass, rowsMax } from "./pass.ts";

const droppedMax = 4_096;

export function toProtoPass(pass: Pass): MessageInitShape<typeof PassSchema> {
  const { id, epoch, rows, dropped } = pass;
  return {
    ...pass,
    id: BigInt(id),
    epoch: BigInt(epoch),
    rows: rows.map((row) => ({ ...row })),
    dropped: [...dropped],
  };
}

export function fromProtoPass(pass: ProtoPass | undefined): Pass {
  if (!pass) fail("invalid_argument", "a tensor came without its pass");
  if (pass.rows.length > rowsMax || pass.dropped.length > droppedMax)
    fail("invalid_argument", "a pass has too many rows");
  const tokens = pass.rows[0]?.tokens ?? 1;
  if (tokens < 1 || pass.rows.some((row) => row.tokens !== tokens))
    fail("invalid_argument", "the rows of a pass differ in their tokens");
  return {
    id: Number(pass.id),
    conductor: pass.conductor,
    epoch: Number(pass.epoch),
    attempt: pass.attempt,
    rows: pass.rows.map(({ request, position, tokens, ghost }) => ({ request, position, tokens, ghost })),
    plain: pass.plain,
    dropped: pass.dropped,
  };
}
