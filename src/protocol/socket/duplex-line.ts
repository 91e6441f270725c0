// A stream of Node's as a line.

import type { Duplex } from "node:stream";
import { DcnrError } from "../../core/errors.ts";
import type { Line } from "../routes/line.ts";

export function duplexLine(socket: Duplex): Line {
  socket.on("error", () => {});
  return {
    send: (piece) => {
      if (socket.destroyed || socket.writableEnded)
        return Promise.reject(new DcnrError("unavailable", "the connection has closed"));
      return new Promise((resolve, reject) => {
        socket.write(piece, (error) => (error ? reject(DcnrError.from(error, "unavailable")) : resolve()));
      });
    },
    incoming: socket,
    close: () => void socket.destroy(),
  };
}
