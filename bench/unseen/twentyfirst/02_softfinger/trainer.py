import torch
import torch.nn.functional as F

from utils import AverageMeter


class Trainer:
    def __init__(self, model, cfg, loaders, device, runlog):
        self.model = model.to(device)
        self.cfg = cfg["train"]
        self.train_loader, self.val_loader = loaders
        self.device = device
        self.log = runlog
        self.opt = torch.optim.Adam(model.param_groups(self.cfg["lr"], self.cfg["lr_orth"]))
        self.sched = torch.optim.lr_scheduler.OneCycleLR(
            self.opt, max_lr=[self.cfg["lr"], self.cfg["lr_orth"]],
            total_steps=self.cfg["epochs"] * len(self.train_loader), pct_start=0.2)
        self.best = float("inf")

    def criterion(self, tip, curv, tip_gt, curv_gt):
        pos = F.smooth_l1_loss(tip, tip_gt, beta=0.05)
        shape = F.mse_loss(curv, curv_gt)
        smooth = (tip[:, 1:] - tip[:, :-1]).pow(2).mean()
        return pos + self.cfg["curvature_weight"] * shape + self.cfg["smooth_weight"] * smooth

    def run_epoch(self, epoch):
        self.model.train()
        meter = AverageMeter()
        for it, batch in enumerate(self.train_loader, 1):
            strain, tip_gt, curv_gt = (b.to(self.device) for b in batch)
            tip, curv, _ = self.model(strain)
            loss = self.criterion(tip, curv, tip_gt, curv_gt)
            self.opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg["grad_clip"])
            self.opt.step()
            self.sched.step()
            meter.update(loss, strain.shape[0])
            if it % self.cfg["print_freq"] == 0:
                self.log.write(epoch=epoch, it=it, loss=meter.avg, lr=self.sched.get_last_lr()[0])
        return meter.avg

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        err, curv_err = AverageMeter(), AverageMeter()
        for batch in self.val_loader:
            strain, tip_gt, curv_gt = (b.to(self.device) for b in batch)
            tip, curv, _ = self.model(strain)
            err.update((tip - tip_gt).norm(dim=-1).mean(), strain.shape[0])
            curv_err.update((curv - curv_gt).abs().mean(), strain.shape[0])
        return err.avg, curv_err.avg

    def fit(self):
        for epoch in range(1, self.cfg["epochs"] + 1):
            loss = self.run_epoch(epoch)
            if epoch % self.cfg["val_every"] == 0:
                tip_err, curv_err = self.validate()
                self.log.write(epoch=epoch, train_loss=loss, tip_err=tip_err, curv_mae=curv_err)
                if tip_err < self.best:
                    self.best = tip_err
                    torch.save(self.model.state_dict(), self.log.folder / "best.pth")
        return self.best
