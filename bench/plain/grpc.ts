// The real network without TLS for what it calls itself: who calls is believed from a header. It still answers in TLS, to whoever asks so.

import type { KeyId } from "../../src/core/ids.ts";
import { type GrpcNetwork, type GrpcNetworkOptions, openGrpcNetwork as openReal } from "../../src/protocol/grpc.ts";
import type { Caller, Gate } from "../../src/protocol/network.ts";
import { withoutKey } from "../../src/protocol/routes/address.ts";
import { isPunched, isRelayed } from "../../src/protocol/routes/routes.ts";

const scheme = "Plain ";

export function openGrpcNetwork(options: GrpcNetworkOptions): GrpcNetwork {
  const { identity, headers = {} } = options;
  const network = openReal({
    ...options,
    headers: { ...headers, ...(identity && { authorization: `${scheme}${identity.id}` }) },
  });
  const plain = (address: string) => (isRelayed(address) || isPunched(address) ? address : withoutKey(address));
  return {
    ...network,
    get key() {
      return network.key;
    },
    call: (address, ...rest) => network.call(plain(address), ...rest),
    watch: (address, ...rest) => network.watch(plain(address), ...rest),
    open: (address, ...rest) => network.open(plain(address), ...rest),
    serve: (address, services, http, gate) => network.serve(address, services, http, gate && believing(gate)),
  };
}

function believing(gate: Gate): Gate {
  return {
    ...gate,
    identify: async (caller: Caller, authorization) => {
      if (authorization?.startsWith(scheme)) return { ...caller, id: authorization.slice(scheme.length) as KeyId };
      return gate.identify ? gate.identify(caller, authorization) : caller;
    },
  };
}
