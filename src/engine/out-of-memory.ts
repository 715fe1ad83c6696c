/**
 * Whether an error says that memory for a run could not be had: onnxruntime's arena ("Failed to allocate
 * memory for requested buffer of size …"), TensorFlow's ("OOM when allocating tensor …"), C++
 * (`std::bad_alloc`), a typed array in JavaScript ("Array buffer allocation failed"). The session that threw
 * it can be used again. A process that the kernel ends for its memory throws nothing.
 */
export function isOutOfMemory(error: unknown): boolean {
  return (
    error instanceof Error &&
    /failed to allocate memory|oom when allocating|bad[_ ]alloc|array buffer allocation failed/i.test(
      error.message,
    )
  );
}
