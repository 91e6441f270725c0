// What TLS 1.3 with both ends pinned costs beside plain text: of whole work (encrypted-work.ts), and CPU time of both ends of an exchange
// of tensors as large as T1's and as small as generation's, in turns. Each way has one connection; what it carries has the same
// frames and hashes.

import { t1 } from "../examples/generate.ts";
import { hashOfContent } from "../src/core/hash.ts";
import { DataType } from "../src/protocol/gen/dcnr/v1/common_pb.ts";
import { ExchangeService, Verdict } from "../src/protocol/gen/dcnr/v1/exchange_pb.ts";
import { openGrpcNetwork } from "../src/protocol/grpc.ts";
import { type Channel, service } from "../src/protocol/network.ts";
import { withKey } from "../src/protocol/routes/address.ts";
import { newIdentity } from "../src/system/keys.ts";
import { backgroundTimers } from "../src/system/timers.ts";
import { encryptedWorkReport, encryptedWorks, isEncryptedWork } from "./encrypted-work.ts";
import { median } from "./side.ts";

const turns = 9;
const width = t1.heads * t1.headDim;
const chunkBytes = 1 << 20;

interface Load {
  readonly what: string;
  readonly bytes: number;
  readonly count: number;
}

const loads: readonly Load[] = [
  {
    what: `T1's activations of one sample (${t1.context} x ${width} float32)`,
    bytes: t1.context * width * 4,
    count: 32,
  },
  {
    what: `a token's activations in generation (${width} float32), each answered before the next`,
    bytes: width * 4,
    count: 1_000,
  },
];

type Sender = Awaited<ReturnType<typeof opened>>;

async function opened(encrypted: boolean) {
  const identities = encrypted ? [newIdentity(), newIdentity()] : [];
  const [receiving, sending] = [0, 1].map((end) =>
    openGrpcNetwork({ timers: backgroundTimers, ...(identities[end] && { identity: identities[end] }) }),
  ) as [ReturnType<typeof openGrpcNetwork>, ReturnType<typeof openGrpcNetwork>];
  const exchange = service(ExchangeService, {
    exchange: async (channel) => {
      let left = 0;
      let id = 0n;
      for await (const { event } of channel.incoming) {
        if (event.case === "delivery") {
          id = event.value.id;
          left = Number(event.value.bytes) - event.value.data.byteLength;
        } else if (event.case === "chunk") left -= event.value.data.byteLength;
        if (left <= 0) await channel.send({ event: { case: "receipt", value: { id, verdict: Verdict.STORED } } });
      }
    },
  });
  const server = await receiving.serve("127.0.0.1:0", [exchange]);
  const address = identities[0] ? withKey(server.address, identities[0].id) : server.address;
  const channel = sending.open(address, ExchangeService.method.exchange);
  const receipts = channel.incoming[Symbol.asyncIterator]();
  return {
    send: async (data: Uint8Array, hash: string) => {
      await deliver(channel as never, data, hash);
      await receipts.next();
    },
    close: async () => {
      channel.close();
      await server.close();
      for (const network of [receiving, sending]) await network.close();
    },
  };
}

async function deliver(channel: Channel<object, unknown>, data: Uint8Array, hash: string): Promise<void> {
  const isSmall = data.byteLength <= chunkBytes;
  const value = {
    id: 1n,
    dtype: DataType.FLOAT32,
    bytes: BigInt(data.byteLength),
    hash,
    data: isSmall ? data : new Uint8Array(0),
  };
  await channel.send({ event: { case: "delivery", value } });
  for (let at = 0; !isSmall && at < data.byteLength; at += chunkBytes)
    await channel.send({ event: { case: "chunk", value: { id: 1n, data: data.subarray(at, at + chunkBytes) } } });
}

/** CPU milliseconds of this process for one tensor, both ends together. */
async function cpuMsOf(way: Sender, { bytes, count }: Load): Promise<number> {
  const data = new Uint8Array(bytes).fill(7);
  const hash = hashOfContent({ dtype: "float32", shape: [bytes / 4], bytes: data });
  const before = process.cpuUsage();
  for (let i = 0; i < count; i++) await way.send(data, hash);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / count;
}

/** `npm run bench -- encryption steps 5`: only some of it, each part within minutes. */
export async function encryptionReport(args: readonly string[], log: (line: string) => void): Promise<string> {
  const workTurns = Number(args.find((arg) => /^\d+$/.test(arg)) ?? turns);
  const isAll = !args.some((arg) => arg === "tensors" || isEncryptedWork(arg));
  const works = isAll ? encryptedWorks : args.filter(isEncryptedWork);
  const parts: string[] = [];
  if (works.length > 0) parts.push(await encryptedWorkReport(works, workTurns, log));
  if (isAll || args.includes("tensors")) parts.push(await tensorsReport(log));
  return parts.join("\n\n");
}

async function tensorsReport(log: (line: string) => void): Promise<string> {
  const ways = { plain: await opened(false), encrypted: await opened(true) };
  const lines: string[] = [];
  try {
    for (const load of loads) {
      const measured: { plain: number; encrypted: number }[] = [];
      for (let turn = -1; turn < turns; turn++) {
        const one = { plain: await cpuMsOf(ways.plain, load), encrypted: await cpuMsOf(ways.encrypted, load) };
        if (turn >= 0) measured.push(one);
        log(`${load.what}: ${JSON.stringify(one)}`);
      }
      const plain = median(measured.map((one) => one.plain));
      const extra = median(measured.map((one) => one.encrypted - one.plain));
      lines.push(
        `| ${load.what} | ${plain.toFixed(3)} ms | ${(plain + extra).toFixed(3)} ms | ${extra.toFixed(3)} ms |`,
      );
    }
  } finally {
    for (const way of Object.values(ways)) await way.close();
  }
  return [
    `CPU time of both ends together for one tensor over a stream of its own on loopback, plain and over TLS 1.3 with pinned keys, ${turns} turns.`,
    "",
    "| tensor | plain | TLS | more |",
    "|---|---|---|---|",
    ...lines,
  ].join("\n");
}
