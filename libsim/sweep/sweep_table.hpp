#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libsim/hdf5/column_file.hpp"
#include "libsim/sweep/shard.hpp"
#include "libsim/sweep/sweep.hpp"
#include "libsim/sweep/sweep_journal.hpp"

namespace stagecraft {

/// The rows of a journal as a table, by ascending point, whatever their order in the journal.
/// Pre: the journal is that of this shard of the sweep, and complete.
ColumnFile table_of(Sweep const& sweep, Shard shard, SweepJournal const& journal);

/// Reads a result file. \throws InputError
ColumnFile read_sweep_table(std::filesystem::path const& path);

/// Merges the tables of all shards, in any order, into the table of the whole sweep.
/// \throws InputError  naming files that are damaged or belong to another sweep, program or division
///     into shards, files that are given twice, and shards that are missing.
ColumnFile merge_shards(std::vector<std::filesystem::path> const& paths);

/// Writes a table as CSV (RFC 4180, lines end with LF): numbers with the fewest digits that read back
/// as the same number, and nothing if a result does not apply.
/// \throws OutputError
void write_csv(ColumnFile const& table, std::filesystem::path const& path);

/// Writes a table as HDF5 and, unless `csv` is empty, as CSV. Each file is complete or does not appear.
/// \throws OutputError
void write_sweep_table(ColumnFile const& table,
                       std::filesystem::path const& path,
                       std::filesystem::path const& csv);

}  // namespace stagecraft
