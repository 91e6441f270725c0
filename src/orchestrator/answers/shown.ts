// What people see of the checks of a model's answers: those of all its replicas together.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { AnswerChecksSchema } from "../../protocol/gen/dcnr/v1/inference_pb.ts";
import type { Context } from "../context.ts";
import type { ModelRecord } from "../records/sessions.ts";
import { key } from "../records/store-keys.ts";

/** Nothing where nobody checks them. */
export function checksOf(
  { mirror }: Context,
  { replicas }: Pick<ModelRecord, "replicas">,
): { checks?: MessageInitShape<typeof AnswerChecksSchema> } {
  if (!replicas.some((id) => mirror.get(key.replica(id))?.policy.audit)) return {};
  const known = replicas.flatMap((id) => mirror.get(key.checks(id)) ?? []);
  const sum = (of: "right" | "wrong" | "unchecked" | "canaries") =>
    BigInt(known.reduce((total, checks) => total + checks[of], 0));
  const [newest] = known.flatMap(({ last }) => last ?? []).sort((a, b) => b.wallMs - a.wallMs);
  return {
    checks: {
      ...{ right: sum("right"), wrong: sum("wrong"), unchecked: sum("unchecked"), canaries: sum("canaries") },
      ...{ lastWallMs: BigInt(Math.round(newest?.wallMs ?? 0)), last: newest?.story ?? "" },
    },
  };
}
