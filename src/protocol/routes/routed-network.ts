// The network for those who call machines with several routes (place.ts chooses between them). A machine with one address
// is called there, without further ado.

import type { World } from "../../core/world.ts";
import { type Channel, callTimeoutMsDefault, type Network } from "../network.ts";
import { type Carried, Place, type RoutedTimings, routedTimingsDefault } from "./place.ts";
import { isRelayed } from "./routes.ts";

/** Beyond it, those to whom nobody speaks are forgotten. */
const placesMax = 4_096;

export function routedNetwork(inner: Network, world: World, timings: RoutedTimings = routedTimingsDefault): Network {
  const places = new Map<string, Place>();
  /** Undefined where there is nothing to choose. */
  const placeAt = (address: string, carries: Carried): Place | undefined => {
    if (!address.includes(",") && !isRelayed(address)) return undefined;
    const name = `${carries} ${address}`;
    let place = places.get(name);
    if (place === undefined) {
      if (places.size >= placesMax) for (const [old, one] of places) if (one.isIdle) places.delete(old);
      place = new Place(address, carries, inner, world, timings);
      places.set(name, place);
    }
    return place;
  };
  return {
    id: inner.id,
    get key() {
      return inner.key;
    },
    ...(inner.keys && { keys: inner.keys }),
    call: async (address, method, request, options) => {
      const place = placeAt(address, "calls");
      if (place === undefined) return inner.call(address, method, request, options);
      return place.use(options?.timeoutMs ?? callTimeoutMsDefault, (chosen, timeoutMs) =>
        inner.call(chosen, method, request, { ...options, timeoutMs }),
      );
    },
    watch: (address, method, request, options) => {
      const place = placeAt(address, "watches");
      if (place === undefined) return inner.watch(address, method, request, options);
      return watched(place, (chosen) => inner.watch(chosen, method, request, options));
    },
    open: (address, method, options) => {
      const place = placeAt(address, "streams");
      if (place === undefined) return inner.open(address, method, options);
      return deferred(place, (chosen) => inner.open(chosen, method, options));
    },
    serve: (...given) => inner.serve(...given),
    close: async () => {
      for (const place of places.values()) place.close();
      await inner.close();
    },
  };
}

async function* watched<T>(place: Place, watch: (address: string) => AsyncIterable<T>): AsyncGenerator<T> {
  const choice = await place.choose();
  // It goes on by its way to the end; the next one takes a better way, if one is found meanwhile.
  const release = place.holds(choice, () => {});
  try {
    yield* watch(choice.address);
  } catch (error) {
    place.failed(choice, error);
    throw error;
  } finally {
    release();
  }
}

/** A stream whose route is still being chosen. */
function deferred<Out, In>(place: Place, open: (address: string) => Channel<Out, In>): Channel<Out, In> {
  let isClosed = false;
  let end = () => {};
  const close = () => {
    isClosed = true;
    end();
  };
  const ready = place.choose().then((choice) => {
    const channel = open(choice.address);
    const release = place.holds(choice, close);
    end = () => {
      release();
      channel.close();
    };
    if (isClosed) end();
    return { channel, choice, release };
  });
  // Whoever sends or reads hears of it.
  ready.catch(() => {});
  async function* incoming(): AsyncGenerator<In> {
    const { channel, choice, release } = await ready;
    try {
      yield* channel.incoming;
    } catch (error) {
      place.failed(choice, error);
      throw error;
    } finally {
      release();
    }
  }
  const messages = incoming();
  return { send: (message) => ready.then(({ channel }) => channel.send(message)), incoming: messages, close };
}
