/** Text for terminals: widths as shown, alignment, times, and outside text made harmless. */

const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const ZERO = /[\p{Mn}\p{Me}\p{Cf}]/u;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not reach a terminal
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Columns that `text` takes on a terminal: 2 for East Asian wide characters, 0 for combining marks. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const char of text) width += ZERO.test(char) ? 0 : WIDE.test(char) ? 2 : 1;
  return width;
}

/** `text` filled with spaces to `width` columns; longer text stays as it is. */
export function pad(text: string, width: number, align: 'left' | 'right'): string {
  const space = ' '.repeat(Math.max(0, width - displayWidth(text)));
  return align === 'left' ? text + space : space + text;
}

/** The longest beginning of `text` that fits in `width` columns, with `…` where something was cut. */
export function fit(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let out = '';
  let used = 1;
  for (const char of text) {
    used += displayWidth(char);
    if (used > width) break;
    out += char;
  }
  return width > 0 ? `${out}…` : '';
}

/** Text from a model or a data file: control and direction characters become visible escapes. */
export function printable(text: string): string {
  return text.replace(CONTROL, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** `8.2 s`, `3 min 05 s`, `2 h 07 min`; for less than a second `0.4 s`. */
export function duration(seconds: number): string {
  if (seconds < 59.95) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  const two = (value: number) => String(value).padStart(2, '0');
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
}

/** A count for people: `950`, `12.3 k`, `4.56 M`, `1.2 G`. */
export function short(value: number): string {
  const steps: [number, string][] = [
    [1e9, ' G'],
    [1e6, ' M'],
    [1e3, ' k'],
  ];
  const step = steps.find(([size]) => Math.abs(value) >= size);
  if (!step) return String(Math.round(value));
  return `${Number((value / step[0]).toPrecision(3))}${step[1]}`;
}
