/**
 * Writing the protobuf wire format (protobuf.dev/programming-guides/encoding): a message is the
 * concatenation of its fields, a field is a tag (number × 8 + wire type) and its payload. Enough for ONNX.
 */

/** A field, encoded. */
export type Field = Uint8Array;

const utf8 = new TextEncoder();

function varint(value: number | bigint): number[] {
  const out: number[] = [];
  if (typeof value === 'number' && value >= 0 && value < 2 ** 31) {
    let rest = value;
    for (; rest > 127; rest >>>= 7) out.push((rest & 127) | 128);
    out.push(rest);
    return out;
  }
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 127n; rest >>= 7n) out.push(Number(rest & 127n) | 128);
  out.push(Number(rest));
  return out;
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
  new Uint8Array([...varint(field * 8), ...varint(value)]);

/** 32-bit float field. */
export function float(field: number, value: number): Field {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setFloat32(0, value, true);
  return new Uint8Array([...varint(field * 8 + 5), ...bytes]);
}

/** Length-delimited field: bytes, a string, or an embedded message. */
export function bytes(field: number, payload: Uint8Array | string): Field {
  const data = typeof payload === 'string' ? utf8.encode(payload) : payload;
  return message(new Uint8Array([...varint(field * 8 + 2), ...varint(data.length)]), data);
}
