// A pass between the wire's form and ours. What comes from outside is checked here.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { fail } from "../../core/errors.ts";
import type { PassSchema, Pass as ProtoPass, PassRow as ProtoRow } from "../../protocol/gen/dcnr/v1/serving_pb.ts";
import { type Pass, type PassRow, passTokensMax, rowsMax, tokensIn } from "./pass.ts";

const droppedMax = 4_096;
/** Conductors count requests; their names are kept for as long as anything is remembered of them. */
const nameLengthMax = 64;

export function toProtoPass(pass: Pass): MessageInitShape<typeof PassSchema> {
  const { id, epoch, rows, dropped } = pass;
  return {
    ...pass,
    id: BigInt(id),
    epoch: BigInt(epoch),
    rows: rows.map(({ request, position, tokens, logits, hidden = 0, adapter = 0, shared }) => ({
      ...{ request, position, tokens, logits, hidden, adapter },
      ...(shared && { sharesWith: shared.request, sharedPositions: shared.positions }),
    })),
    dropped: [...dropped],
  };
}

export function fromProtoPass(pass: ProtoPass | undefined): Pass {
  if (!pass) fail("invalid_argument", "a tensor came without its pass");
  if (pass.rows.length > rowsMax || pass.dropped.length > droppedMax)
    fail("invalid_argument", "a pass has too many rows");
  for (const name of pass.dropped) checkName(name);
  const rows = pass.rows.map(fromProtoRow);
  if (tokensIn({ rows }) > passTokensMax) fail("invalid_argument", `a pass has more than ${passTokensMax} tokens`);
  if (new Set(rows.map(({ request }) => request)).size < rows.length)
    fail("invalid_argument", "a request has two rows of one pass");
  return {
    id: Number(pass.id),
    conductor: pass.conductor,
    epoch: Number(pass.epoch),
    attempt: pass.attempt,
    rows,
    plain: pass.plain,
    dropped: pass.dropped,
  };
}

function fromProtoRow(row: ProtoRow): PassRow {
  const { request, position, tokens, logits, hidden, adapter, sharesWith, sharedPositions } = row;
  if (tokens < 1 || logits > tokens || hidden > tokens)
    fail("invalid_argument", `a row of a pass has ${tokens} tokens, ${logits} logits, ${hidden} hidden states`);
  if (sharedPositions > 0 && sharedPositions !== position)
    fail("invalid_argument", `a row shares ${sharedPositions} positions and begins at ${position}`);
  if (sharedPositions > 0 && sharesWith === request)
    fail("invalid_argument", "a request shares the positions of another one, not its own");
  checkName(request);
  checkName(sharesWith);
  const shared = sharedPositions > 0 && { shared: { request: sharesWith, positions: sharedPositions } };
  const own = { ...(hidden > 0 && { hidden }), ...(adapter > 0 && { adapter }) };
  return { request, position, tokens, logits, ...own, ...shared };
}

function checkName(name: string): void {
  if (name.length > nameLengthMax) fail("invalid_argument", `a request's name has ${name.length} letters`);
}
