"""k-means finds centres that are the means of their points."""

import torch

from sparsegate_lab.layers.kmeans import kmeans


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_as_many_centres_as_points_are_the_points():
    points = torch.randn(6, 3)
    centres, nearest = kmeans(points, 6, seeded())
    torch.testing.assert_close(centres[nearest], points)


def test_every_centre_is_the_mean_of_its_points_and_the_nearest_to_them():
    points = torch.randn(200, 4, generator=seeded(1))
    centres, nearest = kmeans(points, 8, seeded())
    assert len(nearest.unique()) == 8
    for place, centre in enumerate(centres):
        torch.testing.assert_close(
            centre, points[nearest == place].mean(dim=0), atol=0.05, rtol=0.1
        )
    assert torch.equal(nearest, (points[:, None] - centres[None]).norm(dim=2).argmin(dim=1))


def test_clear_clusters_are_found():
    middles = torch.tensor([[0.0, 0.0], [10.0, 0.0]])
    points = (middles[:, None] + 0.1 * torch.randn(2, 50, 2, generator=seeded(2))).flatten(0, 1)
    centres, _ = kmeans(points, 2, seeded())
    torch.testing.assert_close(centres[centres[:, 0].argsort()], middles, atol=0.1, rtol=0)


def test_equal_points_leave_centres_without_points_where_they_are():
    centres, nearest = kmeans(torch.ones(5, 2), 3, seeded())
    assert torch.equal(centres, torch.ones(3, 2))
    assert nearest.tolist() == [0] * 5


def test_the_same_seed_gives_the_same_centres():
    points = torch.randn(50, 2)
    assert torch.equal(kmeans(points, 5, seeded(3))[0], kmeans(points, 5, seeded(3))[0])
