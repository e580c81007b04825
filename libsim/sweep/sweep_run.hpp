#pragma once

#include <cstdint>
#include <functional>

#include "libsim/sweep/shard.hpp"
#include "libsim/sweep/sweep.hpp"
#include "libsim/sweep/sweep_journal.hpp"

namespace stagecraft {

/// Evaluates every point of a shard that the journal does not have, on `jobs` threads, and appends
/// the rows to the journal batch by batch. `progress` is called with the number of rows in the
/// journal, by one thread at a time.
///
/// A row depends only on its point, so that neither the number of threads nor any interruption
/// changes the final content of the journal, except the order of its rows.
/// \throws OutputError  The journal keeps what it has.
/// \throws std::runtime_error  naming a point that could not be simulated
void run_sweep(Sweep const& sweep,
               Shard shard,
               int jobs,
               SweepJournal& journal,
               std::function<void(std::int64_t rows)> const& progress);

}  // namespace stagecraft
