// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The file system as runs use it: checkpoints of each rank, a packed task that all ranks read, results.h5
// that all write together. The bound is what the medium gives: the same bytes by plain reads and writes,
// written through to it, or read after its pages were dropped. Files lie in the system's folder for temporary
// files (TMPDIR), or in that of --dump.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>
#include <vector>

#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/data/packed.hpp"
#include "suite/store/results.hpp"
#include "suite/store/safetensors.hpp"

namespace taugrid::bench {
namespace {

constexpr std::int64_t rank_numbers = std::int64_t{16} << 20;  // float32, of a rank: 64 MiB
constexpr std::int64_t packed_images = 20'000;                 // 61 MB
constexpr std::size_t piece = std::size_t{4} << 20;            // of a plain read or write

/// An open file; throws where a call fails.
class PlainFile {
 public:
  PlainFile(const std::filesystem::path& path, int flags) : descriptor_(::open(path.c_str(), flags, 0666)) {
    require(descriptor_ >= 0, "open");
  }
  ~PlainFile() { ::close(descriptor_); }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  void write(const char* data, std::size_t bytes) const {
    while (bytes > 0) {
      const auto done = ::write(descriptor_, data, std::min(bytes, piece));
      require(done > 0, "write");
      data += done;
      bytes -= static_cast<std::size_t>(done);
    }
    require(::fsync(descriptor_) == 0, "fsync");
  }
  void read() const {
    std::vector<char> buffer(piece);
    for (ssize_t done = 1; done > 0;) {
      done = ::read(descriptor_, buffer.data(), buffer.size());
      require(done >= 0, "read");
    }
  }
  /// Drops the file's pages, so that the next read asks the medium; file systems in memory have no other
  /// place.
  void forget() const {
    require(::fdatasync(descriptor_) == 0, "fdatasync");
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  }

 private:
  static void require(bool right, const char* call) {
    if (!right) throw std::system_error(errno, std::generic_category(), call);
  }
  int descriptor_;
};

/// float32 [rank_numbers], a rank's own.
at::Tensor numbers_of_rank(int rank) { return at::arange(rank_numbers, at::kFloat).remainder(1000) + rank; }

std::filesystem::path file_of_rank(const Fixture& x, const char* name) {
  std::filesystem::create_directories(x.folder());
  return x.folder() / fmt::format("{}-{}", name, x.world().rank());
}

/// `bytes` of all ranks together.
Work moved(double bytes) {
  Work work;
  work.bytes = bytes;
  work.items = bytes;
  work.unit = "B";
  work.tolerance = 0;
  return work;
}

/// Seconds that each rank takes for its 64 MiB by plain writes, all at once.
Bound plain_writes(const Fixture& x, const at::Tensor& mine) {
  const auto path = file_of_rank(x, "plain");
  const double seconds = x.fastest(3, [&] {
    PlainFile(path, O_WRONLY | O_CREAT | O_TRUNC)
        .write(static_cast<const char*>(mine.const_data_ptr()), mine.nbytes());
  });
  std::filesystem::remove(path);
  return {seconds, "write"};
}

Bound plain_reads(const Fixture& x, const std::function<void()>& forget, const std::filesystem::path& path) {
  return {x.fastest(3,
                    [&] {
                      forget();
                      PlainFile(path, O_RDONLY).read();
                    }),
          "read"};
}

Work checkpoint(const Fixture& x, bool reads) {
  const auto path = file_of_rank(x, reads ? "read.safetensors" : "written.safetensors");
  const auto theta = numbers_of_rank(x.world().rank());
  const auto tensor = std::make_shared<at::Tensor>();
  const auto save = [path, theta] { store::write_safetensors(path, {{{"theta", theta}}, {}}); };
  auto work = moved(static_cast<double>(theta.nbytes()) * x.world().size());
  if (reads) {
    save();
    const auto forget = [path] { PlainFile(path, O_RDONLY).forget(); };
    work.bound = plain_reads(x, forget, path);
    work.run = [path, tensor, forget] {
      forget();
      *tensor = store::read_safetensors(path).tensors.at("theta");
    };
  } else {
    work.bound = plain_writes(x, theta);
    work.run = save;
  }
  work.error = [&x, path, theta, tensor, reads] {
    return x.worst(at::equal(reads ? *tensor : store::read_tensor(path, "theta"), theta) ? 0 : 1);
  };
  return work;
}

/// Each rank reads all of a task, as a run's ranks do: pictures are mapped, and come as they are touched.
Work packed_read(const Fixture& x) {
  const auto path = x.folder() / "storage" / "task.h5";
  const auto images =
      at::arange(packed_images * 32 * 32 * 3, at::kInt).remainder(251).to(at::kByte).view({-1, 32, 32, 3});
  x.write_task(path, images, at::arange(packed_images).remainder(classes));
  const auto inputs = std::make_shared<at::Tensor>();
  auto work = moved(static_cast<double>(std::filesystem::file_size(path)) * x.world().size());
  const auto forget = [path, inputs, &x] {
    inputs->reset();  // pages that somebody has mapped stay
    x.world().barrier("pages of a file");
    if (x.world().rank() == 0) PlainFile(path, O_RDONLY).forget();
    x.world().barrier("pages of a file");
  };
  work.bound = plain_reads(x, forget, path);
  work.run = [path, inputs, forget] {
    forget();
    *inputs = data::read_task(path).test.inputs;
    constexpr std::int64_t page = 4096;
    inputs->flatten().slice(0, 0, inputs->numel(), page).sum();
  };
  work.error = [&x, images, inputs] { return x.worst(at::equal(*inputs, images) ? 0 : 1); };
  return work;
}

Work results_write(const Fixture& x) {
  const auto path = x.folder() / "storage.h5";
  const auto mine = numbers_of_rank(x.world().rank());
  auto work = moved(static_cast<double>(mine.nbytes()) * x.world().size());
  work.bound = plain_writes(x, mine);
  work.run = [path, mine, &x] {
    store::ResultsWriter out(path, x.world());
    out.create("/numbers", store::Element::float32, {x.world().size(), rank_numbers}, {"rank", "number"});
    out.write_slabs("/numbers", {{{x.world().rank(), 0}, {1, rank_numbers}, mine.const_data_ptr()}});
    out.commit();
  };
  work.error = [path, &x] {
    auto all = at::empty({x.world().size(), rank_numbers}, at::kFloat);
    store::Hdf5File(path).read("/numbers", store::Element::float32, all.data_ptr(), all.nbytes());
    bool right = true;
    for (int rank = 0; rank < x.world().size(); ++rank)
      right = right && at::equal(all[rank], numbers_of_rank(rank));
    return x.worst(right ? 0 : 1);
  };
  return work;
}

}  // namespace

std::vector<Case> storage_cases(const Fixture& x) {
  return {{"storage/checkpoint_write", [&x] { return checkpoint(x, false); }, false, true, true},
          {"storage/checkpoint_read", [&x] { return checkpoint(x, true); }, false, true, true},
          {"storage/packed_read", [&x] { return packed_read(x); }, false, true, true},
          {"storage/results_write", [&x] { return results_write(x); }, false, true, true}};
}

}  // namespace taugrid::bench
