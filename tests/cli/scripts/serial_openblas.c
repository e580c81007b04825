/* OpenBLAS's own function, as a build without threads has it: see cblas.h. */
int openblas_get_parallel(void) { return 0; }
