#pragma once

#include <filesystem>

#include "libexec/executor/rank_executor.hpp"

namespace stagecraft {

/// Saves what all ranks have trained in `folder`, each its share in a file of its own:
/// folder/step-<n>/rank-<r>.h5 (put together in folder/partial), whole tensors cut into rectangles
/// that know their place in the model, so that any other layout can resume from it. folder/latest
/// names the newest whole checkpoint and is replaced last, so that a run that is killed leaves the
/// one before. Older ones are removed.
///
/// Called by every rank. \throws OutputError, PeerFailure
void save_checkpoint(std::filesystem::path const& folder,
                     RankContext const& context,
                     RankExecutor& executor);

/// Makes the folder and refuses one that cannot be written, before any work.
/// \throws OutputError
void require_checkpoint_folder(std::filesystem::path const& folder);

/// Removes what a save that has failed left of a checkpoint. Nobody may be saving there any more.
void discard_unfinished_checkpoint(std::filesystem::path const& folder);

/// Sets parameters, optimizer state and training state of a rank to those of the newest checkpoint
/// in `folder`, whatever layout and precision wrote it.
///
/// Called by every rank. \throws DataError  naming the file, where something is missing or damaged.
void load_checkpoint(std::filesystem::path const& folder,
                     RankContext const& context,
                     RankExecutor& executor);

}  // namespace stagecraft
