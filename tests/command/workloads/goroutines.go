// Goroutines that call C's malloc, on whatever threads they are. Argument: goroutines.
package main

/*
#include <stdlib.h>
#include <string.h>

static int last_of(int bytes) {
  char* block = malloc(bytes);
  memset(block, bytes & 127, bytes);
  int last = block[bytes - 1];
  free(block);
  return last;
}
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	var all sync.WaitGroup
	var mutex sync.Mutex
	sum := 0
	for i := 0; i < count; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for bytes := 1; bytes < 2000; bytes++ {
				last := int(C.last_of(C.int(bytes)))
				mutex.Lock()
				sum += last
				mutex.Unlock()
			}
		}()
	}
	all.Wait()
	fmt.Println(sum)
}
