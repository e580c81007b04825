#pragma once

#include <filesystem>

#include "libexec/executor/rank_executor.hpp"

namespace stagecraft {

/// Saves what all ranks have trained in `folder`, the share of each rank in a file of its own:
/// folder/step-<n>/rank-<r>.h5 (written in folder/partial; CheckpointShare). A share is rectangles
/// of whole tensors with their places in the model, so that any other layout can resume from it.
/// folder/latest names the newest complete checkpoint and is replaced last, so that a run that is
/// killed leaves the previous one. Beside it the `keep` - 1 of the highest steps are kept, and
/// others removed.
///
/// Called by every rank. Pre: keep >= 1. \throws OutputError, PeerFailure
void save_checkpoint(std::filesystem::path const& folder,
                     int keep,
                     RankContext const& context,
                     RankExecutor& executor);

/// Creates the folder and refuses one that cannot be written, before any work.
/// \throws OutputError
void require_checkpoint_folder(std::filesystem::path const& folder);

/// Removes what a failed save left of a checkpoint. Pre: no rank is still saving there.
void discard_unfinished_checkpoint(std::filesystem::path const& folder);

/// Sets parameters, optimizer state and training state of a rank to those of the newest checkpoint
/// in `folder`, whatever layout and precision wrote it. Returns false if its files have no
/// checksums and no model to compare, as those of earlier versions.
///
/// Called by every rank. \throws DataError  naming the file, if something is missing or damaged, or
/// of another model.
bool load_checkpoint(std::filesystem::path const& folder,
                     RankContext const& context,
                     RankExecutor& executor);

}  // namespace stagecraft
