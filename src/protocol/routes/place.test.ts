import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DcnrError } from "../../core/errors.ts";
import type { KeyId } from "../../core/ids.ts";
import { virtualWorld } from "../../core/virtual-world.testing.ts";
import { SessionPeerService } from "../gen/dcnr/v1/session_peers_pb.ts";
import { SystemService } from "../gen/dcnr/v1/system_pb.ts";
import type { Network } from "../network.ts";
import { withKey } from "./address.ts";
import { Place, routedTimingsDefault as timings } from "./place.ts";
import { routedNetwork } from "./routed-network.ts";

const home = "home.example:7400";
const relayed = `p@relay.example:7700/${"a".repeat(52)}`;

/** A machine with an address and a relay; each question waits until the test answers it, or for as long as it has time. */
function scene() {
  const { world, pass, until } = virtualWorld();
  const asked: { readonly address: string; answer(): void; refuse(): void }[] = [];
  const network = {
    call: (address: string, _method: object, _request: object, { timeoutMs }: { readonly timeoutMs: number }) => {
      const { promise, resolve, reject } = Promise.withResolvers<object>();
      const refuse = () => reject(new DcnrError("unavailable", `${address} is away`));
      asked.push({ address, answer: () => resolve({}), refuse });
      world.timers.after(timeoutMs, refuse);
      return promise;
    },
  } as unknown as Network;
  /** The one question that goes by this route and was not taken yet. */
  const question = async (address: string) => {
    await until(() => asked.some((one) => one.address === address), timings.relayedMs);
    const at = asked.findIndex((one) => one.address === address);
    const [found] = asked.splice(at, 1);
    return found as (typeof asked)[number];
  };
  const place = new Place(`${home},${relayed}`, "streams", network, world, timings);
  return { world, pass, network, question, place };
}

/** What has come of it so far. */
function followed<T>(promise: Promise<T>) {
  const outcome: { value?: T; error?: unknown } = {};
  promise.then(
    (value) => {
      outcome.value = value;
    },
    (error) => {
      outcome.error = error;
    },
  );
  return outcome;
}

describe("a machine with several routes", () => {
  it("has a route although another look for a better one found it, and who looked first finds none any more", async () => {
    const { place, question, pass } = scene();
    const first = place.choose();
    (await question(home)).refuse();
    (await question(relayed)).answer();
    const byRelay = await first;
    assert.equal(byRelay.address, relayed);

    // A look for a better route is under way when the relayed one breaks.
    place.holds(byRelay, () => {});
    const better = await question(home);
    place.failed(byRelay, new DcnrError("unavailable", "the relay is gone"));
    const outcome = followed(place.choose());
    const flapping = await question(home);
    better.answer();
    await pass(1);
    flapping.refuse();
    await pass(2 * timings.answerMs);
    assert.equal(outcome.value?.address, home);

    // And whoever comes next is told as well.
    place.failed(outcome.value, new DcnrError("unavailable", "it is gone, too"));
    const next = followed(place.choose());
    await pass(2 * timings.answerMs);
    assert.match(String(next.error), /no route leads to/);
    place.close();
  });

  it("is not waited for longer than a call has time, though its routes are still being tried", async () => {
    const { network, world, question, pass } = scene();
    const routed = routedNetwork(network, world);
    const { getVersion } = SystemService.method;
    const outcome = followed(routed.call(`${home},${relayed}`, getVersion, {}, { timeoutMs: 1_000 }));
    await pass(999);
    assert.deepEqual(outcome, {});
    await pass(2);
    assert.equal((outcome.error as DcnrError).code, "deadline_exceeded");
    // What answers later serves the next call.
    (await question(relayed)).answer();
    const next = followed(routed.call(`${home},${relayed}`, getVersion, {}, { timeoutMs: 1_000 }));
    (await question(relayed)).answer();
    await pass(1);
    assert.ok(next.value);
  });

  it("hands states on by a way through routers that stands, and has one made for them; calls are not worth one", async () => {
    const { world, until } = virtualWorld();
    let stands = false;
    let attempts = 0;
    const took: string[] = [];
    const by = (address: string) => (address.includes("?punched") ? "made" : "relay");
    const network = {
      punches: {
        stands: (address: string) => stands && by(address) === "made",
        punch: async () => {
          attempts++;
          if (!stands) throw new DcnrError("unavailable", "no way leads through the routers");
        },
      },
      call: async () => ({}),
      watch: async function* (address: string) {
        took.push(by(address));
        yield {};
      },
    } as unknown as Network;
    const routed = routedNetwork(network, world);
    const address = withKey(relayed, "b".repeat(52) as KeyId);
    const fetch = async () => {
      let isOver = false;
      const fetching = (async () => {
        for await (const _ of routed.watch(address, SessionPeerService.method.fetch, {}));
        isOver = true;
      })();
      await until(() => isOver);
      await fetching;
    };
    await routed.call(address, SystemService.method.getVersion, {});
    assert.equal(attempts, 0, "a call asks for no way of its own");
    await fetch();
    assert.equal(attempts, 1);
    // Somebody's stream has made one since.
    stands = true;
    await fetch();
    assert.deepEqual(took, ["relay", "made"]);
    stands = false;
    await fetch();
    assert.deepEqual(took, ["relay", "made", "relay"]);
  });

  it("is watched by a relay for calls alone where nothing else leads to it, as it is called", async () => {
    const { world } = virtualWorld();
    const network = {
      watch: async function* (address: string) {
        yield address;
      },
    } as unknown as Network;
    const only = `${relayed}?calls`;
    const got: unknown[] = [];
    for await (const one of routedNetwork(network, world).watch(only, SessionPeerService.method.fetch, {}))
      got.push(one);
    assert.deepEqual(got, [only]);
  });
});
