/* Give a fuzz target the files that are named, and no more: no fuzzer is needed. */
#include "fuzz.h"

int main(int count, char **paths)
{
    static uint8_t bytes[1 << 16];
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(paths[i], "rb");
        if (!file) {
            perror(paths[i]);
            return 1;
        }
        size_t len = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        LLVMFuzzerTestOneInput(bytes, len);
    }
    return 0;
}
