import { blobConformance } from "./blobs/blob-conformance.ts";
import { blobHttpHandler } from "./blobs/blob-http.ts";
import { openMemoryBlobs, openMemoryStore } from "./memory.ts";
import { conformanceWorld, storeConformance } from "./records/conformance.ts";

const store = openMemoryStore();
storeConformance("memory", { open: async () => store });

blobConformance("memory", async () => {
  let shiftMs = 0;
  const clock = { wallMs: () => conformanceWorld.clock.wallMs() + shiftMs };
  const blobs = openMemoryBlobs({ clock, baseUrl: () => "http://blobs.invalid" });
  const handler = blobHttpHandler(blobs);
  return {
    blobs,
    request: async (request) => (await handler(request, "test", { hold: () => true }))!,
    inThePast: async (work) => {
      shiftMs = -3_600_000;
      try {
        return await work(blobs);
      } finally {
        shiftMs = 0;
      }
    },
  };
});
