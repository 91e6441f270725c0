// Standings, a conviction and audits that only pretend: a real network takes a liar and many intervals to come to them.

import { TrustService } from "../src/protocol/gen/dcnr/v1/trust_pb.ts";
import type { ServedService } from "../src/protocol/network.ts";
import { sessionId } from "./fake-fleet.ts";
import { partly } from "./fake-orchestrator.ts";

const liar = {
  ...{ pnode: "machine-3", name: "machine-3", standing: "quarantined", right: 0n, rate: 1, audited: 14n },
  reason: "its result of VNode block_2, steps 20 to 40, is far from what two others come to",
};

export function fakeTrust(): ServedService {
  const wallMs = BigInt(Date.now() - 1_200_000);
  const lastAudit = `VNode block_1, steps 40 to 60 of session ${sessionId}: right, recomputed by a trusted machine`;
  const seen = { lastAudit, lastAuditWallMs: wallMs };
  return partly(TrustService, {
    listStandings: async () => ({
      standings: [
        ...[
          {
            standing: "trusted",
            reason: "an operator vouches for it; 240 intervals found right or final",
            right: 240n,
          },
          { standing: "known", reason: "61 intervals found right or final", right: 61n },
        ].map((one, index) => ({
          ...{ ...one, ...seen, pnode: `machine-${index + 1}`, name: `machine-${index + 1}` },
          ...{ rate: index === 0 ? 0.05 : 0.16, audited: 30n, auditsDone: 25n },
        })),
        {
          ...{ ...liar, ...seen },
          faults: [{ wallMs, kind: "lie", story: liar.reason, command: `dcnr audit ${sessionId} block_2 20` }],
        },
        {
          ...{ pnode: "machine-4", name: "machine-4", standing: "newcomer", rate: 1 },
          reason: "0 intervals found right or final; known from 10 on",
        },
      ],
    }),
    getAssurance: async () => ({
      ...{ assurance: "sampled", line: 60n, final: 40n, finalRoot: "5f".repeat(32) },
      ...{ byTrusted: 4n, byStrangers: 2n, byNobody: 2n },
      audits: [
        {
          ...{ vnode: "block_1", from: 40n, to: 60n, owner: "machine-2", status: "is being repeated" },
          ...{ auditors: ["machine-1 (audit)"], command: `dcnr audit ${sessionId} block_1 40` },
        },
      ],
    }),
  });
}
