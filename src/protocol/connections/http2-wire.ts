// An HTTP/2 stream as what carries a pipe.

import type { Http2Stream } from "node:http2";
import type { Pipe } from "../streams/pipe.ts";

export function attachHttp2(pipe: Pipe, stream: Http2Stream): void {
  stream.on("data", (chunk: Uint8Array) => pipe.push(chunk));
  stream.on("drain", () => pipe.drained());
  stream.on("error", () => {});
  pipe.attach({
    write: (pieces) => {
      let more = true;
      stream.cork();
      for (const piece of pieces) more = stream.write(piece);
      stream.uncork();
      return more;
    },
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
  });
}
