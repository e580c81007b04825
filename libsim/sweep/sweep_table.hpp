#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libsim/hdf5/column_file.hpp"
#include "libsim/sweep/shard.hpp"
#include "libsim/sweep/sweep.hpp"
#include "libsim/sweep/sweep_journal.hpp"

namespace stagecraft {

/// What this version of the program writes and reads; see SCHEMA.md.
inline constexpr char const* sweep_schema = "stagecraft.sweep/1";

/// The rows of a journal as a table, by ascending point: independent of the order in which they
/// came. Pre: the journal is that of the sweep's shard and whole.
ColumnFile table_of(Sweep const& sweep, Shard shard, SweepJournal const& journal);

/// Reads a result file. \throws InputError
ColumnFile read_sweep_table(std::filesystem::path const& path);

/// The table that the whole sweep would have given, from those of all its shards, in any order.
/// \throws InputError  naming files that are damaged or of another sweep, program or division, those
///     that are there twice, and shards that are missing.
ColumnFile merge_shards(std::vector<std::filesystem::path> const& paths);

/// Writes a table as CSV (RFC 4180, lines end with LF): numbers in the fewest digits that read back
/// the same, nothing where a result does not apply.
/// \throws OutputError
void write_csv(ColumnFile const& table, std::filesystem::path const& path);

/// Writes a table as HDF5 and, unless `csv` is empty, as CSV. Each appears whole or not at all.
/// \throws OutputError
void write_sweep_table(ColumnFile const& table,
                       std::filesystem::path const& path,
                       std::filesystem::path const& csv);

}  // namespace stagecraft
