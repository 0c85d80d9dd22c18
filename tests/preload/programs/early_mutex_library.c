/* Its constructor runs before that of a preloaded library. */
#include <errno.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int works;

__attribute__((constructor)) static void begin(void) {
  pthread_mutex_t made;
  works = pthread_mutex_lock(&mutex) == 0 && pthread_mutex_trylock(&mutex) == EBUSY &&
          pthread_mutex_unlock(&mutex) == 0 && pthread_mutex_init(&made, NULL) == 0 &&
          pthread_mutex_lock(&made) == 0 && pthread_mutex_destroy(&made) == EBUSY &&
          pthread_mutex_unlock(&made) == 0 && pthread_mutex_destroy(&made) == 0;
}

int mutex_of_library_works(void) { return works; }
