#pragma once

#include <cstdint>
#include <functional>

#include "libsim/sweep/shard.hpp"
#include "libsim/sweep/sweep.hpp"
#include "libsim/sweep/sweep_journal.hpp"

namespace stagecraft {

/// Evaluates every point of a shard that the journal does not have, on `jobs` threads, and appends
/// the rows to the journal, a batch at a time. `progress` is told how many rows the journal has, by
/// one thread at a time.
///
/// A row depends on its point only, so that neither the number of threads nor any interruption
/// changes what the journal holds in the end, but for the order of its rows.
/// \throws OutputError  and what the journal has stays there
/// \throws std::runtime_error  naming a point that could not be simulated
void run_sweep(Sweep const& sweep,
               Shard shard,
               int jobs,
               SweepJournal& journal,
               std::function<void(std::int64_t rows)> const& progress);

}  // namespace stagecraft
