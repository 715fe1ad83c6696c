/** Where a thinking model's thought ends. */
const THOUGHT_END = '</think>';

/**
 * The JSON object that ends last in what a model wrote, whatever thought, fence or remark stands around it. Throws
 * when there is none; what a marked thought tries out is none.
 */
export function lastObject(written: string): unknown {
  const thought = written.lastIndexOf(THOUGHT_END);
  const text = thought < 0 ? written : written.slice(thought + THOUGHT_END.length);
  const end = text.lastIndexOf('}') + 1;
  for (let at = text.lastIndexOf('{', end); at >= 0; at = at === 0 ? -1 : text.lastIndexOf('{', at - 1)) {
    try {
      return JSON.parse(text.slice(at, end));
    } catch {
      // A brace within the object, or within the thought before it.
    }
  }
  throw new Error('no JSON object');
}
