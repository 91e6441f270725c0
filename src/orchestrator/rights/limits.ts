// Keys that are good for some networks, or for what their owners made, alone. Pure: whoever enforces it finds out what a thing
// belongs to.

import { fail } from "../../core/errors.ts";
import type { Access } from "../../protocol/gen/dcnr/v1/access_pb.ts";
import { Subject } from "../../protocol/gen/dcnr/v1/access_pb.ts";
import type { Roles } from "../../protocol/network.ts";

/** What a thing belongs to; undefined where it belongs to nothing of the kind. */
export interface Belonging {
  readonly network?: string | undefined;
  readonly owner?: string | undefined;
}

/** Of what a call makes: it belongs to whoever asked for it. */
export function ownedBy(roles: Roles | undefined): { readonly owner?: string } {
  return roles?.owner ? { owner: roles.owner } : {};
}

export function isLimited(roles: Roles | undefined): roles is Roles {
  return roles !== undefined && (roles.networks !== undefined || roles.ownOnly === true);
}

/** Before anything is looked up: refuses methods that a limited key never opens. */
export function checkMethod(roles: Roles, { subject, makes }: Access, method: string): void {
  const { networks, ownOnly } = roles;
  if (networks !== undefined && (!ofNetworks.has(subject) || (makes && !withinNetwork.has(subject))))
    fail("permission_denied", `your key is limited to ${listed(networks)}: ${method} is not about a network`);
  if (ownOnly && !makes && !ownable.has(subject))
    fail("permission_denied", `your key is limited to what ${roles.owner} made: ${method} is about more than that`);
}

/** A thing that is there: refuses it if the key is limited to others. */
export function checkBelonging(roles: Roles, { network, owner }: Belonging, name: string): void {
  const { networks, ownOnly } = roles;
  if (networks !== undefined && (network === undefined || !networks.includes(network)))
    fail("permission_denied", `your key is limited to ${listed(networks)}: ${name} is not of it`);
  if (ownOnly && owner !== roles.owner)
    fail("permission_denied", `your key is limited to what ${roles.owner} made: ${name} is somebody else's`);
}

function listed(networks: readonly string[]): string {
  return networks.length === 1 ? `the network ${networks[0]}` : `the networks ${networks.join(", ")}`;
}

const ofNetworks: ReadonlySet<Subject> = new Set([
  ...[Subject.NETWORK, Subject.SESSION, Subject.MODEL, Subject.SOURCE, Subject.STATE, Subject.JOB],
]);
/** What is made of them stays within the network. */
const withinNetwork: ReadonlySet<Subject> = new Set([Subject.NETWORK, Subject.SOURCE, Subject.JOB]);
const ownable: ReadonlySet<Subject> = new Set([...ofNetworks, ...[Subject.DATASET, Subject.VOCABULARY, Subject.PNODE]]);
