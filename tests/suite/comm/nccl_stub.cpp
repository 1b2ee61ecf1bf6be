// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A stand-in for NCCL that moves host memory by MPI and writes down each call: enough to test all that
// taugrid does around the library where there is neither a GPU nor NCCL.
#include "tests/suite/comm/nccl_stub.hpp"

#include <mpi.h>
#include <nccl.h>

#include <cstring>
#include <utility>

struct ncclComm {
  MPI_Comm mpi;
};

namespace {

std::vector<taugrid::test::NcclCall>& calls() {
  static std::vector<taugrid::test::NcclCall> all;
  return all;
}

ncclResult_t fail_next = ncclSuccess;

ncclResult_t note(const char* name, std::size_t count, int type, const void* stream) {
  calls().push_back({name, count, type, reinterpret_cast<std::int64_t>(stream)});
  return std::exchange(fail_next, ncclSuccess);
}

MPI_Datatype type_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return MPI_FLOAT;
    case ncclFloat64:
      return MPI_DOUBLE;
    case ncclInt32:
      return MPI_INT32_T;
    case ncclInt64:
      return MPI_INT64_T;
    default:
      return MPI_BYTE;
  }
}

int number(std::size_t count) { return static_cast<int>(count); }

}  // namespace

namespace taugrid::test {
std::vector<NcclCall> take_nccl_calls() { return std::exchange(calls(), {}); }
void fail_next_nccl_call(int code) { fail_next = static_cast<ncclResult_t>(code); }
}  // namespace taugrid::test

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSystemError ? "unhandled system error" : "other error";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::strcpy(id->internal, "the id of rank 0");
  return note("id", 0, 0, nullptr);
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (std::strcmp(id.internal, "the id of rank 0") != 0) return ncclInvalidArgument;
  // Who calls together is a group; the order of calls tells which, as all ranks of taugrid's tests call.
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, ranks, rank, &part);
  int size = 0;
  MPI_Comm_size(part, &size);
  if (size != ranks) return ncclInvalidArgument;
  *comm = new ncclComm{part};
  return note("init", static_cast<std::size_t>(ranks), rank, nullptr);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  MPI_Comm_free(&comm->mpi);
  delete comm;
  return note("destroy", 0, 0, nullptr);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  if (from != to) return ncclInvalidArgument;
  MPI_Bcast(to, number(count), type_of(type), root, comm->mpi);
  return note("broadcast", count, type, stream);
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  if (from != to || op != ncclSum) return ncclInvalidArgument;
  MPI_Allreduce(MPI_IN_PLACE, to, number(count), type_of(type), MPI_SUM, comm->mpi);
  return note("all_reduce", count, type, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  MPI_Allgather(from, number(count), type_of(type), to, number(count), type_of(type), comm->mpi);
  return note("all_gather", count, type, stream);
}

}  // extern "C"
