#pragma once

#include <memory>

#include "nccl.h"

namespace stagecraft::nccl_emulation {

class Board;

/// Names a new job and serves its board from a thread of this process until `ranks` have come, as
/// NCCL's bootstrap does. The socket has a name of the kind that leaves no file.
/// \throws std::runtime_error
ncclUniqueId open_meeting();

/// The board of a job. \throws std::runtime_error  where nobody serves it any more.
std::shared_ptr<Board> join_meeting(ncclUniqueId const& id, int ranks);

}  // namespace stagecraft::nccl_emulation
