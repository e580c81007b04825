#pragma once

#include <memory>

#include "nccl.h"

namespace stagecraft::nccl_emulation {

class Board;

/// Names a new job. The name is that of a socket of the kind that leaves no file: a new one, or the
/// one that NCCL_COMM_ID makes for all ranks.
ncclUniqueId new_id();

/// Serves the board of a job from a thread of this process until all ranks have come, as NCCL's
/// bootstrap does; once for each id. \throws std::runtime_error
void open_meeting(ncclUniqueId const& id);

/// The board of a job; waits a moment for it. \throws std::runtime_error  if nobody serves it.
std::shared_ptr<Board> join_meeting(ncclUniqueId const& id, int ranks);

}  // namespace stagecraft::nccl_emulation
