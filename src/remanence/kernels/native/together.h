/* What threads that share a piece of work tell each other: numbers that are read and written as a whole, in order. */
#ifndef REMANENCE_TOGETHER_H
#define REMANENCE_TOGETHER_H

#if defined(_MSC_VER)
#include <windows.h>
static inline long together_take(volatile long *number) { return InterlockedExchangeAdd(number, 1); }
static inline long together_read(volatile long *number) { return InterlockedCompareExchange(number, 0, 0); }
static inline void together_pause(void) { YieldProcessor(); }
static inline void together_yield(void) { SwitchToThread(); }
static inline void together_sleep(void) { Sleep(1); }
#else
#include <sched.h>
#include <time.h>
/* The number before one was added to it; everything written before is seen by who reads the new number. */
static inline long together_take(volatile long *number) { return __atomic_fetch_add(number, 1, __ATOMIC_ACQ_REL); }
static inline long together_read(volatile long *number) { return __atomic_load_n(number, __ATOMIC_ACQUIRE); }
#if defined(__x86_64__)
static inline void together_pause(void) { __builtin_ia32_pause(); }
#else
static inline void together_pause(void) { __asm__ volatile("" ::: "memory"); }
#endif
static inline void together_yield(void) { sched_yield(); }
static inline void together_sleep(void) {
    struct timespec moment = {0, 20000};
    nanosleep(&moment, NULL);
}
#endif

/* Wait until a number has reached `value`: for some microseconds at work, then making room for others. */
static inline void together_wait(volatile long *number, long value) {
    for (long spins = 0; together_read(number) < value; ++spins) {
        if (spins < 1000) together_pause();
        else if (spins < 1100) together_yield();
        else together_sleep();
    }
}

#endif
