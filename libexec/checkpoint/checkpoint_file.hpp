#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libexec/executor/rank_context.hpp"

namespace stagecraft {

/// A rectangle of one tensor of the whole model. Its numbers are in a file row by row, starting at
/// `offset`.
struct CheckpointPiece {
  std::string name;  ///< the name of the tensor
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t offset = 0;
  std::int64_t whole_rows = 0;  ///< of the tensor
  std::int64_t whole_columns = 0;

  std::int64_t elements() const { return rows * columns; }
};

/// The part of one rank in a checkpoint.
struct CheckpointShare {
  TrainingState state;
  std::string model;  ///< section `model` of the run as JSON; empty in files of schema 1
  std::vector<CheckpointPiece> pieces;
  std::vector<double> weight;  ///< the master copies, if there are any
  std::vector<double> first_moment;
  std::vector<double> second_moment;
};

/// Writes one file, schema stagecraft.checkpoint/2: attributes `schema`, `model`, `step`, `updates`,
/// `loss_scale`, `steps_since_overflow`; datasets, whose chunks have checksums as all else has,
/// /pieces/{name,row,column,rows,columns,offset,whole_rows,whole_columns} and
/// /values/{weight,first_moment,second_moment}, stored as `type` (f32 or f64).
/// \throws OutputError
void write_checkpoint_file(std::filesystem::path const& path,
                           CheckpointShare const& share,
                           ElementType type);

/// Reads a file of schema 2, or of schema 1, which had neither a model nor checksums.
/// \throws DataError  naming the file and what is wrong with it.
CheckpointShare read_checkpoint_file(std::filesystem::path const& path);

}  // namespace stagecraft
