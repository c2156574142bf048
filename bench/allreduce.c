/* How long MPI_Allreduce takes for so many megabytes, beside minigpt-train/examples/exchange.rs:
 *   mpicc -O2 bench/allreduce.c -o allreduce && mpirun -n 2 ./allreduce 50 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    enum { TIMES = 20 };
    int rank, ranks, megabytes = argc > 1 ? atoi(argv[1]) : 50, n = megabytes * 250000;
    float *own = malloc(4L * n), *sum = malloc(4L * n);
    double times[TIMES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < n; i++) own[i] = i % 1000 + rank;
    for (int t = 0; t < TIMES; t++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begun = MPI_Wtime();
        MPI_Allreduce(own, sum, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        times[t] = MPI_Wtime() - begun;
    }
    qsort(times, TIMES, sizeof *times, by_value);
    if (rank == 0)
        printf("%d MB on %d ranks: median %.1f ms, best %.1f ms\n", megabytes, ranks, 1e3 * times[TIMES / 2], 1e3 * times[0]);
    MPI_Finalize();
    return 0;
}
