import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isPublicAddress } from "../../core/internet.ts";
import { download, type HttpAnswer, type HttpRequest } from "./download.ts";
import { openSource } from "./source.ts";

interface FakeAnswer {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** A world of host names with addresses and pages; connecting asks the check, as the real one does. */
function web(
  addresses: Record<string, string>,
  pages: Record<string, FakeAnswer | ((request: HttpRequest) => FakeAnswer)>,
) {
  const fetched: string[] = [];
  const get = async (request: HttpRequest): Promise<HttpAnswer> => {
    request.checkAddress(addresses[request.url.hostname] ?? "8.8.8.8");
    fetched.push(request.url.href);
    const page = pages[request.url.href];
    const {
      status = 200,
      headers = {},
      body = "",
    } = (typeof page === "function" ? page(request) : page) ?? { status: 404 };
    const bytes = Buffer.from(body);
    return {
      status,
      headers,
      body: (async function* () {
        for (let at = 0; at < bytes.length; at += 3) yield bytes.subarray(at, at + 3);
      })(),
      cancel() {},
    };
  };
  return { get, fetched };
}

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

describe("an address", () => {
  it("is public or not, as the registries say", () => {
    for (const address of [
      "8.8.8.8",
      "1.1.1.1",
      "172.15.0.1",
      "172.32.0.1",
      "100.63.0.1",
      "2606:4700::1111",
      "2a00:1450:4001::1",
    ])
      assert.ok(isPublicAddress(address), address);
    const closed = [
      "127.0.0.1",
      "127.255.255.255",
      "0.0.0.0",
      "10.1.2.3",
      "172.16.0.1",
      "172.31.255.255",
      "192.168.1.1",
      "169.254.169.254",
      "100.64.0.1",
      "224.0.0.1",
      "255.255.255.255",
      "198.18.0.1",
      "::1",
      "::",
      "::ffff:127.0.0.1",
      "::ffff:8.8.8.8",
      "fe80::1",
      "fe80::1%eth0",
      "fc00::1",
      "fd12::1",
      "ff02::1",
      "64:ff9b::7f00:1",
      "2002:7f00:1::",
      "2001:db8::1",
      "2001::1",
      "localhost",
      "",
    ];
    for (const address of closed) assert.ok(!isPublicAddress(address), address);
  });
});

describe("a download", () => {
  const options = (get: ReturnType<typeof web>["get"], bytesMax = 1000) => ({ get, bytesMax });

  it("follows redirects between public addresses", async () => {
    const { get } = web(
      {},
      {
        "https://a.example/x": { status: 302, headers: { location: "/y" } },
        "https://a.example/y": { status: 301, headers: { location: "https://b.example/z" } },
        "https://b.example/z": { body: "content", headers: { "content-length": "7", etag: "e1" } },
      },
    );
    const found = await download("https://a.example/x", 0, "", options(get));
    assert.equal(found.bytes, 7);
    assert.equal(found.tag, "e1");
    assert.equal(await textOf(found.body), "content");
  });

  for (const [what, location] of [
    ["a private address", "https://192.168.0.1/secret"],
    ["a private address in brackets", "https://[::1]/secret"],
    ["a name that leads to a private address", "https://inside.example/secret"],
    ["plain http", "http://b.example/"],
    ["a file", "file:///etc/passwd"],
    ["an address with a password", "https://me:secret@b.example/"],
    ["a number that means loopback", "https://2130706433/"],
    ["an octal number that means loopback", "https://0177.0.0.1/"],
  ] as const)
    it(`is refused when it redirects to ${what}`, async () => {
      const { get, fetched } = web(
        { "inside.example": "10.0.0.7" },
        { "https://a.example/": { status: 302, headers: { location } } },
      );
      await assert.rejects(download("https://a.example/", 0, "", options(get)), (error: { code: string }) =>
        ["permission_denied", "invalid_argument"].includes(error.code),
      );
      assert.deepEqual(fetched, ["https://a.example/"]);
    });

  it("is refused when a name that was public leads elsewhere at the next connection", async () => {
    const addresses: Record<string, string> = { "a.example": "8.8.8.8" };
    const { get } = web(addresses, {
      "https://a.example/x.txt": { body: "0123456789", headers: { "content-length": "10" } },
    });
    const source = await openSource("https://a.example/x.txt", { httpGet: get });
    addresses["a.example"] = "127.0.0.1";
    assert.equal(await textOf(source.read(0)), "0123456789");
    await assert.rejects(textOf(source.read(5)), { code: "permission_denied", message: /127\.0\.0\.1/ });
  });

  it("ends in a circle of redirects", async () => {
    const { get } = web({}, { "https://a.example/": { status: 302, headers: { location: "/" } } });
    await assert.rejects(download("https://a.example/", 0, "", options(get)), /redirects more than 5 times/);
  });

  it("stops a server that has or sends too much", async () => {
    const { get } = web(
      {},
      {
        "https://a.example/said": { body: "x", headers: { "content-length": "1001" } },
        "https://a.example/unsaid": { body: "x".repeat(1001) },
      },
    );
    await assert.rejects(download("https://a.example/said", 0, "", options(get)), { code: "resource_exhausted" });
    const unsaid = await download("https://a.example/unsaid", 0, "", options(get));
    await assert.rejects(textOf(unsaid.body), { code: "resource_exhausted" });
  });

  it("goes on in the middle, whether the server can or not, and notices another file", async () => {
    const { get } = web(
      {},
      {
        "https://a.example/can": ({ headers }) => {
          assert.equal(headers["range"], "bytes=4-");
          return {
            status: 206,
            body: "456789",
            headers: { "content-range": "bytes 4-9/10", "content-length": "6", etag: "e" },
          };
        },
        "https://a.example/cannot": { body: "0123456789", headers: { "content-length": "10", etag: "e" } },
        "https://a.example/wrong": { status: 206, body: "x", headers: { "content-range": "bytes 0-9/10" } },
      },
    );
    for (const page of ["can", "cannot"]) {
      const found = await download(`https://a.example/${page}`, 4, "e", options(get));
      assert.equal(found.bytes, 10);
      assert.equal(await textOf(found.body), "456789");
    }
    await assert.rejects(download("https://a.example/cannot", 4, "other", options(get)), /has changed/);
    await assert.rejects(download("https://a.example/wrong", 4, "", options(get)), /another part/);
  });

  it("says when there is nothing", async () => {
    const { get } = web({}, { "https://a.example/broken": { status: 500 } });
    await assert.rejects(download("https://a.example/none", 0, "", options(get)), { code: "not_found" });
    await assert.rejects(download("https://a.example/broken", 0, "", options(get)), {
      code: "unavailable",
      message: /status 500/,
    });
  });
});

describe("a bucket", () => {
  it("is read by its key, from any byte on, while it stays the same", async () => {
    const content = Buffer.from("0123456789");
    let tag = "t1";
    const objectGet = async (bucket: string, key: string, start: number) => {
      assert.deepEqual([bucket, key], ["data", "a/b.txt"]);
      return {
        bytes: 10,
        tag,
        body: (async function* () {
          yield content.subarray(start);
        })(),
      };
    };
    const source = await openSource("s3://data/a/b.txt", { objectGet });
    assert.equal(await textOf(source.read(0)), "0123456789");
    assert.equal(await textOf(source.read(7)), "789");
    tag = "t2";
    await assert.rejects(textOf(source.read(7)), /has changed/);
    await assert.rejects(openSource("s3:data", { objectGet }), /s3:\/\/BUCKET\/KEY/);
  });
});
