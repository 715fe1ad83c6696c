/**
 * Writing the protobuf wire format (protobuf.dev/programming-guides/encoding): a message is the
 * concatenation of its fields, a field is a tag (number × 8 + wire type) and its payload. Enough for ONNX.
 */

/** A field, encoded. */
export type Field = Uint8Array;

function varint(value: number | bigint): number[] {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes: number[] = [];
  while (rest > 127n) {
    bytes.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return bytes;
}

/** Concatenates fields into a message. */
export function message(...fields: (Field | readonly Field[])[]): Uint8Array {
  const parts = fields.flat() as Field[];
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Integer field (int32, int64, enum); negative numbers take ten bytes. */
export const int = (field: number, value: number | bigint): Field =>
  Uint8Array.from([...varint(field * 8), ...varint(value)]);

/** 32-bit float field. */
export function float(field: number, value: number): Field {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setFloat32(0, value, true);
  return Uint8Array.from([...varint(field * 8 + 5), ...bytes]);
}

/** Length-delimited field: bytes, a string, or an embedded message. */
export function bytes(field: number, payload: Uint8Array | string): Field {
  const data = typeof payload === 'string' ? new TextEncoder().encode(payload) : payload;
  return message(Uint8Array.from([...varint(field * 8 + 2), ...varint(data.length)]), data);
}
