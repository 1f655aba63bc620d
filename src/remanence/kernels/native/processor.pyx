"""What the processor we run on can do."""

cdef extern from *:
    """
    #if defined(_WIN32)
    #include <windows.h>
    static int processor_has_avx2(void) { return IsProcessorFeaturePresent(40 /* AVX2 */); }
    #elif defined(__x86_64__)
    static int processor_has_avx2(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }
    #else
    static int processor_has_avx2(void) { return 0; }
    #endif
    """
    bint processor_has_avx2()


def has_avx2() -> bool:
    """Whether it has AVX2 and FMA."""
    return processor_has_avx2()
