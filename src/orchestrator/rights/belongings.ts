// Which network a thing belongs to and who made it, as the records say.

import { vocabularyKey } from "../../data/vocabularies.ts";
import { Subject } from "../../protocol/gen/dcnr/v1/access_pb.ts";
import type { Roles } from "../../protocol/network.ts";
import { listItems, readItem } from "../../store/records/update.ts";
import { jobCalled } from "../records/fresh.ts";
import type { Mirror } from "../records/mirror.ts";
import type { ModelRecord } from "../records/sessions.ts";
import { modelNameOf } from "../records/speakers.ts";
import { key, prefix } from "../records/store-keys.ts";
import { type Belonging, checkBelonging, isLimited } from "./limits.ts";

/** Longer than any id. */
const nameLengthMax = 256;

/** Fails for models that a limited key is not good for. */
export async function checkModel(mirror: Mirror, roles: Roles, name: string): Promise<void> {
  const model = isLimited(roles) ? await belongingOf(mirror, Subject.MODEL, name) : undefined;
  if (model) checkBelonging(roles, model, name);
}

/** The same for a dataset: what a model makes of it may tell all that it holds. */
export async function checkDataset(mirror: Mirror, roles: Roles | undefined, name: string): Promise<void> {
  const dataset = isLimited(roles) ? await belongingOf(mirror, Subject.DATASET, name) : undefined;
  if (roles && dataset) checkBelonging(roles, dataset, name);
}

/** Undefined if there is no such thing. */
export async function belongingOf(mirror: Mirror, subject: Subject, name: string): Promise<Belonging | undefined> {
  if (name.length > nameLengthMax) return undefined;
  switch (subject) {
    case Subject.NETWORK: {
      const network = await mirror.read(key.network(name));
      return { network: name, owner: network?.owner };
    }
    case Subject.SESSION:
      return mirror.read(key.session(name));
    case Subject.MODEL:
      return mirror.read(key.model(modelNameOf(name)));
    case Subject.SOURCE:
      return (await mirror.read(key.session(name))) ?? mirror.read(key.model(name));
    case Subject.STATE:
      return holderOf(mirror, name);
    case Subject.DATASET:
      return mirror.read(key.dataset(name));
    case Subject.VOCABULARY:
      return (await readItem<Belonging>(mirror.store, vocabularyKey(name)))?.record;
    case Subject.PNODE: {
      const pnode = await mirror.read(key.pnode(name));
      return pnode && { owner: pnode.owner };
    }
    case Subject.JOB:
      return name === "" ? undefined : jobCalled(mirror, name);
    default:
      return undefined;
  }
}

/** The session or model that has a state. */
async function holderOf(mirror: Mirror, hash: string): Promise<Belonging | undefined> {
  for (const { session, durable } of mirror.under(prefix.vnodes))
    if (Object.values(durable).some((state) => state.hash === hash)) return mirror.get(key.session(session)) ?? {};
  for await (const { record } of listItems<ModelRecord>(mirror.store, prefix.models))
    if (Object.values(record.states).some((state) => state.hash === hash)) return record;
  return {};
}
