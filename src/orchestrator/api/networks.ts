// NetworkService: definitions are compiled before they are kept, and kept verbatim.

import { fail } from "../../core/errors.ts";
import { sha256 } from "../../core/hash.ts";
import { type NetworkId, parseId } from "../../core/ids.ts";
import { memoryBytesOf, parametersOf } from "../../network/memory.ts";
import { NetworkService } from "../../protocol/gen/dcnr/v1/network_pb.ts";
import { type ServedService, service } from "../../protocol/network.ts";
import type { Context } from "../context.ts";
import type { NetworkRecord } from "../records/sessions.ts";
import { key, prefix } from "../records/store-keys.ts";
import { ownedBy } from "../rights/limits.ts";
import { listModels } from "../serving/models.ts";
import type { Compiled } from "../sessions/compiled.ts";
import { page } from "./pages.ts";

export interface NetworkApiNeeds {
  readonly context: Context;
  readonly compiled: Compiled;
}

/** For the sizes that are shown with a network; sessions choose their own batch. */
const shownBatch = 32;

export function networkService(needs: NetworkApiNeeds): ServedService {
  const { mirror } = needs.context;
  return service(NetworkService, {
    createNetwork: async ({ definition, id }, { caller }) => {
      const record = { ...(await compileRecord(needs, definition, id)), ...ownedBy(caller.roles) };
      const stored = await mirror.update(key.network(record.id), (current) => {
        if (current && current.definition !== record.definition)
          fail(
            "already_exists",
            `network ${record.id} exists with another definition: update it, or choose another id`,
          );
        return current ? undefined : record;
      });
      return { network: view(stored.record as NetworkRecord) };
    },
    updateNetwork: async ({ id, definition }) => {
      const known = await find(needs, id);
      const record = await compileRecord(needs, definition, id);
      // Sessions name the definition by its hash: those that exist go on with the one they began with.
      const { record: stored } = await mirror.update(key.network(known.id), (current) =>
        current ? { ...current, ...record, createdWallMs: current.createdWallMs } : record,
      );
      return { network: view(stored as NetworkRecord) };
    },
    getNetwork: async ({ id }) => {
      const record = await find(needs, id);
      const plan = await needs.compiled.plan(record.definition);
      return {
        network: view(record),
        definition: await needs.compiled.text(record.definition),
        vnodes: plan.vnodes.map((vnode) => ({
          id: vnode.id,
          nodes: [...vnode.nodes],
          parameters: BigInt(parametersOf(vnode)),
          memoryBytes: BigInt(Math.ceil(memoryBytesOf(vnode, shownBatch, 4))),
          flops: vnode.flopsPerSample,
        })),
        edges: plan.edges.map((edge) => ({
          id: edge.id,
          from: edge.from,
          to: edge.to,
          shape: [...edge.shape],
          kind: edge.kind,
        })),
      };
    },
    listNetworks: async (request) => {
      const { items, nextPageToken } = page(mirror.under(prefix.networks), (one) => one.id, request);
      return { networks: items.map(view), nextPageToken };
    },
    deleteNetwork: async ({ id }) => {
      const record = await find(needs, id);
      const user = mirror
        .under(prefix.sessions)
        .find((session) => session.network === record.id && session.status !== "deleted");
      const served = (await listModels(needs.context)).find(
        ({ network, replicas }) => network === record.id && replicas.length > 0,
      );
      if (served)
        fail("failed_precondition", `model ${served.name} serves network ${record.id}: dcnr model stop ${served.name}`);
      if (user) fail("failed_precondition", `session ${user.id} uses network ${record.id}: delete it first`);
      await mirror.remove(key.network(record.id));
      return {};
    },
  });
}

async function compileRecord(
  { context, compiled }: NetworkApiNeeds,
  definition: string,
  id: string,
): Promise<NetworkRecord> {
  const plan = await compiled.check(definition);
  const bytes = new TextEncoder().encode(definition);
  const hash = sha256(bytes);
  await context.blobs.definitions.put(hash, bytes, bytes.byteLength);
  return {
    id: parseId<NetworkId>(id || plan.name, "the network's id"),
    name: plan.name,
    definition: hash,
    parameters: plan.vnodes.reduce((sum, vnode) => sum + parametersOf(vnode), 0),
    vnodes: plan.vnodes.length,
    nodes: plan.vnodes.reduce((sum, vnode) => sum + vnode.nodes.length, 0),
    createdWallMs: context.world.clock.wallMs(),
  };
}

async function find({ context }: NetworkApiNeeds, id: string): Promise<NetworkRecord> {
  const name = parseId<NetworkId>(id, "the network's id");
  const known = context.mirror.get(key.network(name)) ?? (await context.mirror.read(key.network(name)));
  return known ?? fail("not_found", `there is no network ${name}: create it with \`dcnr network create FILE\``);
}

function view(record: NetworkRecord) {
  return {
    id: record.id,
    name: record.name,
    hash: record.definition,
    parameters: BigInt(record.parameters),
    vnodes: record.vnodes,
    nodes: record.nodes,
    createdWallMs: BigInt(Math.round(record.createdWallMs)),
  };
}
